"""Files that are mapped: what memory shows of them, also after they have grown or shrunk.

Memory holds an `Image`, a copy of the part that is mapped, made when it is mapped or when the file gets
another size. A page wholly past the end of the file cannot be accessed (SIGBUS, or EFAULT from a call).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.file import File
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import OpenFile
from kvrm.memory import Image, Mark

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_FILE_LIMIT: Final = 1 << 30
"""Most bytes of files that a guest may have mapped: the host holds a copy of each mapping."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The part of an open file that an image is made of: `length` bytes from `offset` on.

    What is mapped as shared never becomes writable if the file was `read_only` then.
    """

    file: OpenFile
    offset: int
    length: int
    read_only: bool = False

    @property
    def size(self) -> int:
        """Bytes of the part that the file has."""
        return max(0, min(self.length, self.file.stat().size - self.offset))

    @property
    def is_untouched(self) -> bool:
        """Whether the guest has left the file alone: it is the host's still, and read-only."""
        node = self.file.node
        return isinstance(node, File) and not node.on_host and node.content is None

    def image(self, process: Process) -> Image:
        """The part as it is now."""
        data = self.file.pread(process, self.size, self.offset) if self.size else b""
        return Image(data, self.file.path.decode(errors="surrogateescape"), ends=True)


def is_writable(process: Process, node: Node) -> bool:
    """Whether a shared mapping of a file is or may become writable."""
    shared = {region.backing for region in process.memory.regions() if region.marks & Mark.SHARED}
    known = [process.mapped[image] for image in shared if image in process.mapped]
    return any(mapped.file.node is node and not mapped.read_only for mapped in known)


def file_room(process: Process) -> int:
    """How many more bytes of files it may map."""
    return _FILE_LIMIT - sum(backing.size for backing in _shown(process))


def show_file(process: Process, mapped: Mapped) -> Image:
    """The image of a part of a file that is to be mapped; ENOMEM if that is too much."""
    shown = _shown(process)
    process.mapped = {image: known for image, known in process.mapped.items() if image in shown}
    if mapped.size > file_room(process):
        raise Failure(Errno.ENOMEM)
    image = mapped.image(process)
    process.mapped[image] = mapped
    return image


def widen(process: Process, image: Image, length: int) -> Image:
    """Have an image show the first `length` bytes from its beginning on, if it is of a file that has them."""
    mapped = process.mapped.get(image)
    if mapped is None or length <= mapped.length:
        return image
    wider = replace(mapped, length=length)
    if wider.size == image.size:
        process.mapped[image] = wider
        return image
    return _replace(process, image, wider)


def follow_sizes(process: Process) -> None:
    """After a system call: have memory show what files have become whose size it changed."""
    for image, mapped in list(process.mapped.items()):
        if not mapped.is_untouched and mapped.size != image.size:
            _replace(process, image, mapped)


def _replace(process: Process, image: Image, mapped: Mapped) -> Image:
    """Have memory show what is mapped now instead of an image; the image itself if that is too much."""
    if mapped.size - image.size > file_room(process):
        return image
    made = mapped.image(process)
    process.memory.reback(image, made)
    del process.mapped[image]
    process.mapped[made] = mapped
    return made


def _shown(process: Process) -> set[Image]:
    return {region.backing for region in process.memory.regions() if region.backing}
