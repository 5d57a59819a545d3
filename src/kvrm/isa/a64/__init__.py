"""The A64 instruction set, one module per group of the manual's encoding index."""

from kvrm.isa.a64 import (  # noqa: F401 - importing a group registers its definitions
    branches,
    crypto_aes,
    crypto_sha,
    crypto_sha_extra,
    crypto_sm,
    dp_crc32,
    dp_flags,
    dp_immediate,
    dp_register,
    dp_sources,
    fp_compare,
    fp_conversions,
    fp_data_processing,
    fp_frintts,
    fp_jscvt,
    loads_stores_atomic,
    loads_stores_exclusive,
    loads_stores_pair,
    loads_stores_register,
    loads_stores_simd_structures,
    loads_stores_unscaled_ordered,
    simd_across_lanes,
    simd_by_element,
    simd_copy,
    simd_fp_bfloat16,
    simd_fp_by_element,
    simd_fp_complex,
    simd_fp_multiply_long,
    simd_fp_reduce,
    simd_fp_shift_immediate,
    simd_fp_three_same,
    simd_fp_two_register,
    simd_modified_immediate,
    simd_permute,
    simd_shift_immediate,
    simd_three_different,
    simd_three_register_extension,
    simd_three_same,
    simd_two_reg_misc,
    system,
)
from kvrm.isa.assembly import disassemble
from kvrm.isa.check import check_once
from kvrm.isa.decoder import decode, decode_many, definition_for
from kvrm.isa.definition import Definition, definition_of, definitions

__all__ = [
    "Definition",
    "decode",
    "decode_many",
    "definition_for",
    "definition_of",
    "definitions",
    "disassemble",
]

check_once()
