"""Numbers that the interpreter's native and Python halves share; light to import, since every start does."""

from __future__ import annotations

SLOT = 32
"""Bytes of a predecoded slot: the handler's address, then operands. An undecoded slot holds its pc there, and
after it the number of the execution class whose handlers may run it; 0 where classes are not told apart."""
OPERANDS, CLASS = 8, 16
OPERAND_BYTES = SLOT - OPERANDS
PAGE_SLOTS = 1025
"""Slots of a page: one per word and one that goes on to the next page."""
SLOT_PER_PC = SLOT // 4
PLAIN_OFFSET = PAGE_SLOTS * SLOT
"""Bytes from a page's slots to its plain handlers: for each word, the handler that a translated region has
replaced, or 0."""
PLAIN_PER_PC = 2
PAGE_BYTES = 41 * 1024
"""Distance between the slots of two pages: the slots, the plain handlers, and a rest of zeros."""
CHUNK_PAGES = 31
"""Predecoded pages allocated at a time, which lie one after another."""

KEYS = 1 << 11
"""Buckets of candidates for each class: bits 31:21 of a word."""
