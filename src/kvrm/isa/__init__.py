"""What an instruction is: encodings, definitions, decoder, disassembler. Imports neither LLVM nor CUDA."""
