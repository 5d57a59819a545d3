"""Memory: mappings, advice, and NUMA policies."""

from __future__ import annotations

from typing import Final

# asm-generic/mman-common.h, mman.h, linux/mman.h, asm/mman.h
PROT_RWX: Final = 7
PROT_SEM: Final = 8
PROT_BTI: Final = 0x10
PROT_GROWSDOWN: Final = 0x0100_0000
PROT_GROWS: Final = 0x0300_0000
MAP_SHARED: Final = 1
MAP_PRIVATE: Final = 2
MAP_SHARED_VALIDATE: Final = 3
MAP_TYPE: Final = 0xF
MAP_FIXED: Final = 0x10
MAP_ANONYMOUS: Final = 0x20
MAP_GROWSDOWN: Final = 0x100
MAP_LOCKED: Final = 0x2000
MAP_HUGETLB: Final = 0x40000
MAP_FIXED_NOREPLACE: Final = 0x100000
LEGACY_MAP_FLAGS: Final = 0x7C07_F930
"""Flags of mmap that MAP_SHARED_VALIDATE knows, besides the type."""
MREMAP_MAYMOVE: Final = 1
MREMAP_FIXED: Final = 2
MREMAP_DONTUNMAP: Final = 4
MS_ASYNC: Final = 1
MS_INVALIDATE: Final = 2
MS_SYNC: Final = 4
MLOCK_ONFAULT: Final = 1
MCL_CURRENT: Final = 1
MCL_FUTURE: Final = 2
MCL_ONFAULT: Final = 4
MADV_NORMAL: Final = 0
MADV_RANDOM: Final = 1
MADV_SEQUENTIAL: Final = 2
MADV_WILLNEED: Final = 3
MADV_DONTNEED: Final = 4
MADV_FREE: Final = 8
MADV_REMOVE: Final = 9
MADV_DONTFORK: Final = 10
MADV_DOFORK: Final = 11
MADV_MERGEABLE: Final = 12
MADV_UNMERGEABLE: Final = 13
MADV_HUGEPAGE: Final = 14
MADV_NOHUGEPAGE: Final = 15
MADV_DONTDUMP: Final = 16
MADV_DODUMP: Final = 17
MADV_WIPEONFORK: Final = 18
MADV_KEEPONFORK: Final = 19
MADV_COLD: Final = 20
MADV_PAGEOUT: Final = 21
MADV_POPULATE_READ: Final = 22
MADV_POPULATE_WRITE: Final = 23
MADV_DONTNEED_LOCKED: Final = 24
MADV_COLLAPSE: Final = 25

# linux/personality.h
READ_IMPLIES_EXEC: Final = 0x0040_0000

# linux/mempolicy.h
MPOL_DEFAULT: Final = 0
MPOL_PREFERRED: Final = 1
MPOL_INTERLEAVE: Final = 3
MPOL_LOCAL: Final = 4
MPOL_PREFERRED_MANY: Final = 5
MPOL_F_RELATIVE_NODES: Final = 1 << 14
MPOL_F_STATIC_NODES: Final = 1 << 15
MPOL_F_NODE: Final = 1
MPOL_F_ADDR: Final = 2
MPOL_F_MEMS_ALLOWED: Final = 4
MPOL_MF_MOVE: Final = 2
MPOL_MF_MOVE_ALL: Final = 4
MPOL_MF_VALID: Final = 7
