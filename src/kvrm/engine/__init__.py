"""How guest code runs: the reference, the interpreter, and the stages that both engines run definitions over."""
