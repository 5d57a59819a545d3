"""The file systems that the guest sees, as /proc/self/mountinfo and its kin list them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.linux.files.mounts import DEV, OVERLAY, PROC, SHM, SYS, Mount, mount_id

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class _Mounted(NamedTuple):
    """A line: where a file system is, what it is called, its type, and whether it can be written."""

    mount: Mount
    parent: Mount
    path: str
    kind: str
    source: str
    options: str


_MOUNTED: Final = (
    _Mounted(OVERLAY, OVERLAY, "/", "ext4", "rootfs", "rw,relatime"),
    _Mounted(PROC, OVERLAY, "/proc", "proc", "proc", "rw,nosuid,nodev,noexec,relatime"),
    _Mounted(SYS, OVERLAY, "/sys", "sysfs", "sysfs", "ro,nosuid,nodev,noexec,relatime"),
    _Mounted(DEV, OVERLAY, "/dev", "tmpfs", "dev", "rw,nosuid,relatime"),
    _Mounted(SHM, DEV, "/dev/shm", "tmpfs", "shm", "rw,nosuid,nodev,relatime"),
)


def mountinfo(process: Process) -> bytes:
    """Identifiers, device, root, place, options, type, source."""
    lines = []
    for mount, parent, path, kind, source, options in _MOUNTED:
        device = f"{os.major(mount.device)}:{os.minor(mount.device)}"
        above = mount_id(parent.device) if parent is not mount else 1
        access = options.partition(",")[0]
        numbers = f"{mount_id(mount.device)} {above} {device}"
        lines.append(f"{numbers} / {path} {options} - {kind} {source} {access}\n")
    return "".join(lines).encode()


def mounts(process: Process) -> bytes:
    """Source, place, type, options."""
    return "".join(f"{m.source} {m.path} {m.kind} {m.options} 0 0\n" for m in _MOUNTED).encode()


def mountstats(process: Process) -> bytes:
    """Source, place and type in words."""
    lines = [f"device {m.source} mounted on {m.path} with fstype {m.kind}\n" for m in _MOUNTED]
    return "".join(lines).encode()
