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


CHECKSUM_BYTES = 16
"""Bytes before the content of a file of `write_checked`."""


def root() -> Path:
    """The cache directory: `KVRM_CACHE` if set, else the platform's."""
    if chosen := os.environ.get("KVRM_CACHE"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("kvrm"))


@functools.cache
def source_hash() -> str:
    """A hash of the package's Python sources: what is derived from them is stale when it changes."""
    digest = hashlib.blake2b(digest_size=16)
    package = Path(__file__).parent
    for folder in ("values", "isa", "engine", "machine", "memory", "neural", "target"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


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
