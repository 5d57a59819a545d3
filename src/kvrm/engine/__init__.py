"""How guest code runs: the engines, and the stages over which they run definitions."""
