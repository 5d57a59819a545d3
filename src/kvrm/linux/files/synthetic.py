"""The few files of /dev and /proc that programs look at."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kvrm.isa.features import cpuinfo_features
from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.files.host import Entry
from kvrm.linux.files.mounts import DEV, PROC, SHM, Mount
from kvrm.linux.files.nodes import Device, Directory, MagicLink, Node, Symlink, Virtual
from kvrm.linux.files.opening import Opened
from kvrm.memory import PAGE, Prot

if TYPE_CHECKING:
    from kvrm.linux.process import Process

RELEASE: Final = "6.1.0"
VERSION: Final = "#1 SMP"
HOSTNAME: Final = "kvrm"
MEMORY_BYTES: Final = 4 << 30

_DEVICES: Final = {
    "null": ("null", 1, 3, 0o666),
    "zero": ("zero", 1, 5, 0o666),
    "full": ("full", 1, 7, 0o666),
    "random": ("random", 1, 8, 0o666),
    "urandom": ("random", 1, 9, 0o666),
    "tty": ("tty", 5, 0, 0o666),
}
_DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


def add_devices(files: FileSystem) -> None:
    """Make /dev; what a root directory has there stays visible beside it."""
    dev = _directory(files, files.root, b"dev", DEV)
    for name, (kind, major, minor, mode) in _DEVICES.items():
        status = files.status(stat.S_IFCHR | mode, DEV, rdev=os.makedev(major, minor))
        dev.entries[name.encode()] = Device(status, kind)
    for name, target in _DEVICE_LINKS.items():
        dev.entries[name.encode()] = _link(files, target.encode(), DEV)
    _directory(files, dev, b"shm", SHM, 0o1777)


def add_processes(files: FileSystem, pid: int) -> None:
    """Make /proc, with the guest as its only process."""
    proc = _directory(files, files.root, b"proc", PROC)
    for path, generate in _SYSTEM_FILES.items():
        *above, last = path.encode().split(b"/")
        directory = proc
        for part in above:
            known = directory.entries.get(part)
            directory = known if isinstance(known, Directory) else _directory(files, directory, part, PROC)
        directory.entries[last] = Virtual(files.status(stat.S_IFREG | 0o444, PROC), generate)
    own = _directory(files, proc, str(pid).encode(), PROC)
    proc.entries[b"self"] = _link(files, own.name, PROC)
    proc.entries[b"thread-self"] = _link(files, own.name + b"/task/" + own.name, PROC)
    for here in (own, _directory(files, _directory(files, own, b"task", PROC), own.name, PROC)):
        for name, generate in _PROCESS_FILES.items():
            here.entries[name.encode()] = Virtual(files.status(stat.S_IFREG | 0o444, PROC), generate)
        for name, find in _PROCESS_LINKS.items():
            here.entries[name.encode()] = MagicLink(files.status(stat.S_IFLNK | 0o777, PROC), find)
        descriptors = DescriptorDirectory(
            b"fd", here, files.status(stat.S_IFDIR | 0o500, PROC, nlink=2), sealed=True
        )
        here.entries[b"fd"] = descriptors


class DescriptorDirectory(Directory):
    """/proc/self/fd: a link for each open descriptor."""

    __slots__ = ()

    def lookup(self, name: bytes) -> Node | None:
        if not name.isdigit() or len(name) > 9:
            return None
        number = int(name)

        def find(process: Process) -> tuple[bytes, Node]:
            descriptor = process.descriptors.get(number)
            if descriptor is None:
                raise Failure(Errno.ENOENT)
            file = descriptor.file
            return file.path, file.target() if file.node is not None else Opened(file)

        return MagicLink(self.stat()._replace(mode=stat.S_IFLNK | 0o700), find)

    def names(self, process: Process) -> dict[bytes, Entry]:
        inode = self.stat().ino
        return {b"%d" % number: Entry(inode, stat.S_IFLNK >> 12) for number in sorted(process.descriptors)}


def _directory(
    files: FileSystem, parent: Directory, name: bytes, mount: Mount, mode: int = 0o755
) -> Directory:
    """A directory in `parent`, which covers what a root directory has there, but for /dev."""
    sealed = mount is PROC
    there = parent.lookup(name) if mount is DEV else None
    lowers = there.lowers if isinstance(there, Directory) else ()
    meta = files.status(stat.S_IFDIR | (0o555 if sealed else mode), mount, nlink=2)
    directory = Directory(name, parent, meta, lowers, sealed=sealed)
    parent.entries[name] = directory
    return directory


def _link(files: FileSystem, target: bytes, mount: Mount) -> Symlink:
    return Symlink(target, files.status(stat.S_IFLNK | 0o777, mount, size=len(target)))


def _fixed(text: str) -> Callable[[Process], bytes]:
    data = text.encode()
    return lambda process: data


def _maps(process: Process) -> bytes:
    lines = []
    for region in process.memory.regions():
        letters = "".join(c if region.prot & bit else "-" for c, bit in zip("rwx", Prot(7), strict=True))
        inode = 1 if region.backing else 0
        line = f"{region.start:08x}-{region.end:08x} {letters}p {region.offset:08x} 00:00 {inode} "
        lines.append(f"{line.ljust(73)}{region.name}\n" if region.name else f"{line}\n")
    return "".join(lines).encode(errors="surrogateescape")


def _stat(process: Process) -> bytes:
    pid, ticks = process.pid, process.retired * abi.CLOCK_TICKS // 1_000_000_000
    size = sum(region.end - region.start for region in process.memory.regions())
    fields = [1, pid, pid, 0, -1, 0x400000, 0, 0, 0, 0, ticks, 0, 0, 0, 20, 0, 1, 0, 0]
    fields += [size, process.memory.private_pages, (1 << 64) - 1, *[0] * 27]
    name = process.name.decode(errors="replace")
    return f"{pid} ({name}) R {' '.join(map(str, fields))}\n".encode()


def _statm(process: Process) -> bytes:
    pages = sum(region.end - region.start for region in process.memory.regions()) // PAGE
    resident = process.memory.private_pages
    return f"{pages} {resident} 0 0 0 {resident} 0\n".encode()


def _status(process: Process) -> bytes:
    uid, gid = process.credentials.uid, process.credentials.gid
    lines = [
        f"Name:\t{process.name.decode(errors='replace')}",
        f"Umask:\t{process.umask:04o}",
        "State:\tR (running)",
        f"Tgid:\t{process.pid}",
        f"Pid:\t{process.pid}",
        "PPid:\t1",
        "TracerPid:\t0",
        "Uid:" + f"\t{uid}" * 4,
        "Gid:" + f"\t{gid}" * 4,
        f"VmRSS:\t{process.memory.private_bytes >> 10:8} kB",
        "Threads:\t1",
        "Cpus_allowed:\t1",
        "Cpus_allowed_list:\t0",
    ]
    return "".join(line + "\n" for line in lines).encode()


def _meminfo(process: Process) -> bytes:
    free = max(0, MEMORY_BYTES - process.memory.private_bytes)
    sizes = {"MemTotal": MEMORY_BYTES, "MemFree": free, "MemAvailable": free}
    sizes |= dict.fromkeys(["Buffers", "Cached", "SwapTotal", "SwapFree"], 0)
    return "".join(f"{name + ':':16}{size >> 10:8} kB\n" for name, size in sizes.items()).encode()


def _uptime(process: Process) -> bytes:
    seconds = f"{process.uptime / 1e9:.2f}"
    return f"{seconds} 0.00\n".encode()


def _exe(process: Process) -> tuple[bytes, Node]:
    return process.program_path, process.program_node


def _cwd(process: Process) -> tuple[bytes, Node]:
    return process.cwd.shown(), process.cwd


def _root(process: Process) -> tuple[bytes, Node]:
    return b"/", process.files.root


_CPUINFO = "\n".join(
    [
        "processor\t: 0",
        "BogoMIPS\t: 100.00",
        "Features\t: {features}",
        "CPU implementer\t: 0x41",
        "CPU architecture: 8",
        "CPU variant\t: 0x0",
        "CPU part\t: 0xd0b",
        "CPU revision\t: 1",
        "\n",
    ]
)


def _cpuinfo(process: Process) -> bytes:
    return _CPUINFO.format(features=cpuinfo_features(process.features)).encode()


_SYSTEM_FILES: dict[str, Callable[[Process], bytes]] = {
    "cpuinfo": _cpuinfo,
    "filesystems": _fixed("nodev\tproc\nnodev\ttmpfs\n"),
    "loadavg": _fixed("0.00 0.00 0.00 1/1 1000\n"),
    "meminfo": _meminfo,
    "mounts": _fixed("rootfs / rootfs rw 0 0\nproc /proc proc ro 0 0\n"),
    "stat": _fixed("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n"),
    "uptime": _uptime,
    "version": _fixed(f"Linux version {RELEASE} ({HOSTNAME}) {VERSION}\n"),
    "sys/kernel/hostname": _fixed(f"{HOSTNAME}\n"),
    "sys/kernel/ngroups_max": _fixed("65536\n"),
    "sys/kernel/osrelease": _fixed(f"{RELEASE}\n"),
    "sys/kernel/ostype": _fixed("Linux\n"),
    "sys/kernel/pid_max": _fixed("32768\n"),
    "sys/kernel/random/boot_id": _fixed("00000000-0000-4000-8000-000000000000\n"),
    "sys/kernel/version": _fixed(f"{VERSION}\n"),
    "sys/vm/max_map_count": _fixed("65530\n"),
    "sys/vm/overcommit_memory": _fixed("0\n"),
}

_PROCESS_FILES: dict[str, Callable[[Process], bytes]] = {
    "auxv": lambda process: process.loaded.auxv,
    "cmdline": lambda process: b"".join(arg + b"\0" for arg in process.argv),
    "comm": lambda process: process.name + b"\n",
    "environ": lambda process: b"".join(entry + b"\0" for entry in process.envp),
    "maps": _maps,
    "mounts": _SYSTEM_FILES["mounts"],
    "stat": _stat,
    "statm": _statm,
    "status": _status,
}

_PROCESS_LINKS: dict[str, Callable[[Process], tuple[bytes, Node]]] = {
    "cwd": _cwd,
    "exe": _exe,
    "root": _root,
}
