"""The memory that a tested function may use: two areas of two pages each, with nothing mapped around them.

An area begins after a page that is not mapped, and ends before one, so that an access outside of it faults.
"""

from __future__ import annotations

from kvrm.memory import PAGE

BASE = 0x30_0000_0000
AREA = 2 * PAGE
ONE, OTHER = BASE, BASE + AREA + PAGE
"""Where the two areas are."""
SIZE = OTHER + AREA - BASE


class Arena:
    """The two areas as a model sees them; `data` (SIZE bytes) has them and the unmapped page between them."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def read(self, address: int, length: int) -> bytes:
        """Bytes of one area. IndexError outside of it."""
        at = self._place(address, length)
        return bytes(self.data[at : at + length])

    def write(self, address: int, data: bytes) -> None:
        """Change bytes of one area. IndexError outside of it."""
        at = self._place(address, len(data))
        self.data[at : at + len(data)] = data

    def string(self, address: int, most: int = SIZE) -> bytes:
        """The bytes before the first zero, at most `most`."""
        at = address - BASE
        end = self.data.find(0, at, at + min(most, _room(address)))
        return bytes(self.data[at:end]) if end >= 0 else self.read(address, most)

    def find(self, address: int, byte: int, most: int) -> int | None:
        """The address of the first such byte among `most`, which may reach past the end of the area."""
        at = address - BASE
        found = self.data.find(byte, at, at + min(most, _room(address)))
        if found < 0 and most > _room(address):
            raise IndexError(f"no byte {byte:#x} from {address:#x} on in its area")
        return None if found < 0 else BASE + found

    def _place(self, address: int, length: int) -> int:
        if length and (length > _room(address) or address < BASE):
            raise IndexError(f"[{address:#x}:{address + length:#x}] is not in an area")
        return address - BASE


def _room(address: int) -> int:
    """Bytes from an address to the end of its area; 0 outside of both."""
    area = next((a for a in (ONE, OTHER) if a <= address < a + AREA), None)
    return 0 if area is None else area + AREA - address
