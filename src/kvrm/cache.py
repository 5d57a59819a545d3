"""Files that KVRM can make again: where they are, and how several processes share them safely."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

KEEP = 4
"""Versions of one kind of cache that are kept; older ones are removed."""


LARGEST_STATUS = 64 * 48
"""Bytes of the files that say what the package's files hashed to, 48 each."""
CHECKSUM_BYTES = 16
"""Bytes before the content of a file of `write_checked`."""


def root() -> Path:
    """The cache directory: `KVRM_CACHE` if set, else the platform's."""
    if chosen := os.environ.get("KVRM_CACHE"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("kvrm"))


@functools.cache
def package_hash() -> str:
    """A hash of all files of the package: what is derived from them is stale when one of them changes.

    It is taken of everything, so that no list can forget a folder.
    """
    return folder_hash(Path(__file__).parent)


def folder_hash(folder: Path) -> str:
    """A hash of the names and contents of all files below a folder.

    A start does not read hundreds of files for it: it is kept on disk by a hash of the files' status, which
    changes with every write.
    """
    files = _files_below(folder)
    status = hashlib.blake2b(digest_size=16)
    for name, entry in files:
        found = entry.stat()
        # Unpacking an archive can restore the time of modification, but neither the inode nor the time of
        # change; without them another version whose file has the same size would keep the old hash.
        stamp = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        status.update(f"{name} {stamp}\n".encode())
    known = root() / "package" / status.hexdigest()
    if (kept := read_checked(known)) is not None:
        return kept.decode()
    digest = hashlib.blake2b(digest_size=16)
    for name, entry in files:
        data = Path(entry).read_bytes()
        digest.update(f"{name} {len(data)}\n".encode() + data)
    write_checked(known, digest.hexdigest().encode())
    shrink(known.parent, "*", LARGEST_STATUS)
    return digest.hexdigest()


def _files_below(top: Path) -> list[tuple[str, os.DirEntry[str]]]:
    """All files with their paths relative to it, sorted; Python's own caches are left out."""
    found = []
    folders = [("", top)]
    while folders:
        prefix, folder = folders.pop()
        for entry in os.scandir(folder):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    folders.append((f"{prefix}{entry.name}/", Path(entry)))
            else:
                found.append((prefix + entry.name, entry))
    return sorted(found, key=lambda pair: pair[0])


def versioned_directory(kind: str, stamp: str) -> Path:
    """The directory of one version of a cache; all but the newest few other versions are removed."""
    directory = root() / kind / stamp
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        others = sorted(directory.parent.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[KEEP:]:
            shutil.rmtree(old, ignore_errors=True)
    return directory


def read_checked(path: Path) -> bytes | None:
    """The content that `write_checked` stored, or None (and the file removed) if it is damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    if hashlib.blake2b(raw[CHECKSUM_BYTES:], digest_size=CHECKSUM_BYTES).digest() == raw[:CHECKSUM_BYTES]:
        return raw[CHECKSUM_BYTES:]
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def write_checked(path: Path, data: bytes) -> None:
    """Store data so that readers see all of it or nothing; a full or read-only disk is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.blake2b(data, digest_size=CHECKSUM_BYTES).digest() + data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def shrink(directory: Path, pattern: str, limit: int) -> None:
    """Remove the files that were changed longest ago until the others have at most `limit` bytes."""
    files = []
    for path in directory.glob(pattern):
        with contextlib.suppress(OSError):
            status = path.stat()
            files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files, key=lambda f: f[0]):
        if total <= limit:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
