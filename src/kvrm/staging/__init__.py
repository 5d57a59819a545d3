"""One text for every target: from Python to LLVM, and from LLVM to machine code."""
