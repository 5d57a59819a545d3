"""The network for memory: training, learning while a guest runs, and evaluation beside the other policies."""
