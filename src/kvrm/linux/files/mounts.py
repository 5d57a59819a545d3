"""The file systems that the guest sees, told apart by the device of their files (st_dev)."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from kvrm.linux import abi

_OURS: Final = 0xF0000
"""Minor numbers from here on are no device of the host."""


class Mount(NamedTuple):
    """A file system: st_dev of what the guest makes there, and its type (statfs)."""

    device: int
    magic: int

    @property
    def number(self) -> int:
        """What name_to_handle_at calls it."""
        return self.device & 0xFF


OVERLAY: Final = Mount(os.makedev(0, 77), abi.EXT2_SUPER_MAGIC)
"""All that the guest is shown of the host, with its changes."""
PROC: Final = Mount(os.makedev(0, _OURS + 1), abi.PROC_SUPER_MAGIC)
DEV: Final = Mount(os.makedev(0, _OURS + 2), abi.TMPFS_MAGIC)
SHM: Final = Mount(os.makedev(0, _OURS + 3), abi.TMPFS_MAGIC)
MEMFD: Final = Mount(os.makedev(0, _OURS + 4), abi.TMPFS_MAGIC)
PIPE: Final = Mount(os.makedev(0, _OURS + 5), abi.PIPEFS_MAGIC)
SYS: Final = Mount(os.makedev(0, _OURS + 6), abi.SYSFS_MAGIC)
ANONYMOUS: Final = Mount(os.makedev(0, _OURS + 7), abi.ANON_INODE_FS_MAGIC)
SOCKETS: Final = Mount(os.makedev(0, _OURS + 8), abi.SOCKFS_MAGIC)
QUEUES: Final = Mount(os.makedev(0, _OURS + 9), abi.MQUEUE_MAGIC)
PROCESSES: Final = Mount(os.makedev(0, _OURS + 10), abi.PID_FS_MAGIC)
_ALL: Final = (PROC, DEV, SHM, MEMFD, PIPE, SYS, ANONYMOUS, SOCKETS, QUEUES, PROCESSES)
_BY_DEVICE: Final = {mount.device: mount for mount in _ALL}
_FIRST_ID: Final = 20


def mount_of(device: int) -> Mount:
    """The file system that a file with this st_dev is in."""
    return _BY_DEVICE.get(device, OVERLAY)


def mount_id(device: int) -> int:
    """The number that /proc gives to that file system."""
    return _FIRST_ID + [OVERLAY, *_BY_DEVICE.values()].index(mount_of(device))
