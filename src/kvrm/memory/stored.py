"""How guest memory is written down when a snapshot is pickled.

Contents are known by their digest: pages with equal bytes are written once, whatever holds them (the lane,
the program's segments, a mapped file, a file of the guest), and pages of zeros not at all. What is read back
is shared in the same way: equal private pages are one `Page` for as long as any snapshot has them.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import IO, Any, ClassVar, Final
from weakref import WeakValueDictionary

from kvrm.memory.pages import HOST, PAGE, ZERO_PAGE, Image, Page, PagePool

_ZEROS: Final = bytes(PAGE)


class Contents:
    """Bytes, and their digest. `of` gives one object for equal bytes, which a pickle holds once."""

    __slots__ = ("__weakref__", "data", "digest")
    _known: ClassVar[WeakValueDictionary[bytes, Contents]] = WeakValueDictionary()

    def __init__(self, data: bytes, digest: bytes) -> None:
        self.data, self.digest = data, digest

    @classmethod
    def of(cls, data: bytes) -> Contents:
        """The object of these bytes."""
        digest = blake2b(data, digest_size=16).digest()
        return cls._known.setdefault(digest, cls(data, digest))

    def __reduce__(self) -> tuple[Any, ...]:
        return Contents.of, (self.data,)


class Writer(pickle.Pickler):
    """Pickles what refers to guest memory, but for the bytes in it: those are in `contents`."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.contents: dict[Contents, int] = {}

    def persistent_id(self, thing: Any) -> int | None:
        """The number of the contents; all else is pickled."""
        return self.contents.setdefault(thing, len(self.contents)) if type(thing) is Contents else None

    def reducer_override(self, thing: Any) -> Any:
        """How a private page and an image are made again."""
        if type(thing) is Page:
            return _page, (_contents_at(thing.address),)
        if type(thing) is Image:
            addresses = range(thing.address, thing.address + thing.length, PAGE)
            pages = [_contents_at(address) for address in addresses]
            return _image, (thing.name, thing.size, thing.ends, pages)
        return NotImplemented


class Reader(pickle.Unpickler):
    """Reads what a `Writer` wrote."""

    def __init__(self, file: IO[bytes], contents: Sequence[Contents]) -> None:
        super().__init__(file)
        self._contents = contents

    def persistent_load(self, number: int) -> Contents:
        """The contents of that number."""
        return self._contents[number]


def _contents_at(address: int) -> Contents | None:
    """What a page of the host holds; None for zeros."""
    data = HOST[address : address + PAGE].tobytes()
    return None if data == _ZEROS else Contents.of(data)


def _image(name: str, size: int, ends: bool, pages: list[Contents | None]) -> Image:
    data = b"".join(page.data if page else _ZEROS for page in pages)
    return Image(data[:size], name, ends=ends)


def _page(contents: Contents | None) -> Page:
    """A private page that no lane owns; each copies it before it writes."""
    digest = contents.digest if contents else b""
    with _lock:
        page = _pages.get(digest)
        if page is None:
            _pages[digest] = page = _pool.copy_of(ZERO_PAGE)
            if contents:
                HOST[page.address : page.address + PAGE] = contents.data
        return page


_lock: Final = Lock()
_pool: Final = PagePool()
_pages: Final[WeakValueDictionary[bytes, Page]] = WeakValueDictionary()
