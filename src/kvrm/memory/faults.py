"""What can go wrong with an access to guest memory."""

from __future__ import annotations

from enum import IntEnum

_BIT_55 = 1 << 55
_TAG = 0xFF << 56
_U64 = (1 << 64) - 1


class AccessKind(IntEnum):
    """What an access does. The values are those of the permission bit that it needs (`Prot`)."""

    READ = 1
    WRITE = 2
    FETCH = 4


def untagged(address: int) -> int:
    """`address` as Linux reports it in `si_addr`: modulo 2^64, the tag removed if bit 55 is clear.

    An address with bit 55 set belongs to the kernel's half, where a tag has no meaning to a user.
    """
    address &= _U64
    return address if address & _BIT_55 else address & ~_TAG


class GuestFault(Exception):
    """The guest may not do this access: a data or instruction abort (Arm ARM, D8 "Memory aborts").

    `address` is the first byte, in ascending order, that the access may not touch, without its tag.
    `mapped` is true if a region covers it but forbids `kind` (SEGV_ACCERR), false in a hole (SEGV_MAPERR).
    """

    def __init__(self, address: int, kind: AccessKind, mapped: bool) -> None:
        super().__init__(address, kind, mapped)
        self.address = address
        self.kind = kind
        self.mapped = mapped

    def __str__(self) -> str:
        why = "permission denied" if self.mapped else "not mapped"
        return f"{self.kind.name.lower()} at {self.address:#x}: {why}"


class AlignmentFault(GuestFault):
    """`address` is not a multiple of what the access demands (SIGBUS, BUS_ADRALN), `mapped` or not.

    `Memory.misaligned` makes it.
    """

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} at {self.address:#x}: not aligned"


class SPAlignmentFault(AlignmentFault):
    """SP, which is at `address`, is no multiple of 16 where a load or store begins with it."""

    def __str__(self) -> str:
        return f"SP alignment fault: sp {self.address:#x} is not a multiple of 16"


class BeyondFile(GuestFault):
    """The page at `address` is mapped, but lies wholly past the end of its file (SIGBUS, BUS_ADRERR)."""

    def __init__(self, address: int, kind: AccessKind) -> None:
        super().__init__(address, kind, True)

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} at {self.address:#x}: past the end of the mapped file"
