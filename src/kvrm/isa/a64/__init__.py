"""The A64 instruction set, one module per group of the manual's encoding index."""

from kvrm.isa.a64 import (  # noqa: F401 - importing a group registers its definitions
    branches,
    dp_immediate,
    dp_register,
    loads_stores_exclusive,
    loads_stores_pair,
    loads_stores_register,
    loads_stores_simd_structures,
)
from kvrm.isa.assembly import disassemble
from kvrm.isa.decoder import decode, decode_many, definition_for
from kvrm.isa.check import check_once
from kvrm.isa.definition import Definition, definition_of, definitions

__all__ = ["Definition", "decode", "decode_many", "definition_for", "definition_of", "definitions", "disassemble"]

check_once()
