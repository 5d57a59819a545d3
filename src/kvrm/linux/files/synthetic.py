"""/dev, /proc and /sys: which files they have."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files import virtual
from kvrm.linux.files.devices import DEVICES
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.files.mounts import DEV, PROC, SHM, SYS, Mount
from kvrm.linux.files.nodes import Device, MagicLink, Node, Symlink
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.opening import Opened
from kvrm.linux.files.paths import Name, name_of
from kvrm.linux.files.virtual import Folder, Generate, Make, Virtual, file, folder
from kvrm.linux.layout import Stat
from kvrm.linux.proc import maps, mounts, own, system
from kvrm.linux.proc.system import fixed

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_NAME_SPACES: Final = {
    "cgroup": 4026531835,
    "ipc": 4026531839,
    "mnt": 4026531841,
    "net": 4026531840,
    "pid": 4026531836,
    "pid_for_children": 4026531836,
    "time": 4026531834,
    "time_for_children": 4026531834,
    "user": 4026531837,
    "uts": 4026531838,
}


def add_devices(files: FileSystem) -> None:
    """Make /dev; what a root directory has there stays visible beside it."""
    dev = _directory(files, files.root, b"dev", DEV)
    for name, device in DEVICES.items():
        status = files.status(stat.S_IFCHR | 0o666, DEV, rdev=os.makedev(device.major, device.minor))
        dev.entries[name.encode()] = Device(status, name)
    for name, target in _DEVICE_LINKS.items():
        link = files.status(stat.S_IFLNK | 0o777, DEV, size=len(target))
        dev.entries[name.encode()] = Symlink(target.encode(), link)
    _directory(files, dev, b"shm", SHM, 0o1777)


def add_kernel(files: FileSystem, pid: int) -> None:
    """Make /proc, with the guest and process 1, and /sys; they cover what a root directory has there."""
    number = b"%d" % pid
    processes = {
        b"1": folder(virtual.tree(system.INIT)),
        number: _owned(_PROCESS, files.uid, files.gid),
        b"self": virtual.link(number),
        b"thread-self": virtual.link(number + b"/task/" + number),
        b"mounts": virtual.link(b"self/mounts"),
    }
    for name, mount, children in (
        (b"proc", PROC, _SYSTEM | processes),
        (b"sys", SYS, virtual.tree(system.SYS)),
    ):
        status = files.status(stat.S_IFDIR | 0o555, mount, nlink=2)._replace(uid=0, gid=0)
        files.root.entries[name] = Folder(name, files.root, status, children)


def _directory(
    files: FileSystem, parent: Directory, name: bytes, mount: Mount, mode: int = 0o755
) -> Directory:
    """A directory in `parent`, which covers what a root directory has there, but for /dev."""
    there = _not_the_kernels(parent, name) if mount is DEV else None
    lowers = there.lowers if isinstance(there, Directory) else ()
    directory = Directory(name, parent, files.status(stat.S_IFDIR | mode, mount, nlink=2), lowers)
    parent.entries[name] = directory
    return directory


def _not_the_kernels(parent: Directory, name: bytes) -> Node | None:
    """What the host has in `parent`; None for what a kernel's file system has, which guests may not see."""
    try:
        return parent.lookup(name)
    except (Failure, OSError):
        return None


def _owned(children: Mapping[bytes, Make], uid: int, gid: int) -> Make:
    """A directory whose files are a user's, with itself below `task`."""
    make = folder(children)

    def process(parent: Directory, name: bytes, meta: Stat) -> Node:
        tasks = folder({name: make})
        whole = folder({**children, b"task": tasks})
        return whole(parent, name, meta._replace(uid=uid, gid=gid))

    return process


def _descriptors(process: Process) -> list[int]:
    return list(process.descriptors)


def _descriptor(number: int, parent: Directory, name: bytes, meta: Stat) -> Node:
    return MagicLink(meta._replace(mode=stat.S_IFLNK | 0o700), partial(_opened, number))


def _opened(number: int, process: Process) -> tuple[Name | bytes, Node]:
    descriptor = process.descriptors.get(number)
    if descriptor is None:
        raise Failure(Errno.ENOENT)
    opened = descriptor.file
    return opened.called, opened.target() if opened.node is not None else Opened(opened)


def _descriptor_details(number: int, parent: Directory, name: bytes, meta: Stat) -> Node:
    return _Details(meta._replace(mode=stat.S_IFREG | 0o400), partial(own.fdinfo, fd=number))


class _Details(Virtual):
    """Such a file: it cannot be opened once the other is closed."""

    __slots__ = ()

    def open(self, process: Process, flags: int, name: Name | bytes) -> OpenFile:
        self.generate(process)
        return super().open(process, flags, name)


def _name_space(kind: str, number: int) -> Make:
    """A link to a name space, which cannot be entered."""
    text = f"{kind.partition('_')[0]}:[{number}]".encode()

    def make(parent: Directory, name: bytes, meta: Stat) -> Node:
        inside = Virtual(meta._replace(mode=stat.S_IFREG | 0o444, ino=number), fixed(""))
        return MagicLink(meta._replace(mode=stat.S_IFLNK | 0o777), partial(_inside, text, inside))

    return make


def _inside(text: bytes, inside: Node, process: Process) -> tuple[bytes, Node]:
    return text, inside


def _exe(process: Process) -> tuple[bytes, Node]:
    return process.program_path, process.program.node


def _cwd(process: Process) -> tuple[Name, Node]:
    return name_of(process.cwd), process.cwd


def _root(process: Process) -> tuple[Name, Node]:
    return name_of(process.kernel.files.root), process.kernel.files.root


def _formatted(form: bytes, name: str) -> Generate:
    """A file that says what an attribute of the process is."""
    return partial(_in_form, form, attrgetter(name))


def _in_form(form: bytes, value: Callable[[Process], int | bytes], process: Process) -> bytes:
    return form % value(process)


_SYSTEM: Final = virtual.tree(system.PROC)
_READ_BY_ALL: Final[dict[str, Generate]] = {
    "cgroup": fixed("0::/\n"),
    "cmdline": own.cmdline,
    "cpuset": fixed("/\n"),
    "gid_map": fixed("         0          0 4294967295\n"),
    "limits": own.limits,
    "loginuid": fixed("4294967295"),
    "maps": maps.maps,
    "mountinfo": mounts.mountinfo,
    "mounts": mounts.mounts,
    "oom_score": fixed("0\n"),
    "projid_map": fixed("         0          0 4294967295\n"),
    "schedstat": own.schedstat,
    "sessionid": fixed("4294967295"),
    "setgroups": fixed("allow\n"),
    "smaps": maps.smaps,
    "smaps_rollup": maps.smaps_rollup,
    "stat": own.stat,
    "statm": maps.statm,
    "status": own.status,
    "uid_map": fixed("         0          0 4294967295\n"),
    "wchan": fixed("0"),
}
_READ_BY_OWNER: Final[dict[str, Generate]] = {
    "auxv": _formatted(b"%b", "loaded.auxv"),
    "environ": own.environ,
    "io": own.io,
    "mountstats": mounts.mountstats,
    "personality": _formatted(b"%08x\n", "personality"),
    "syscall": fixed("running\n"),
}
_WRITTEN: Final[dict[str, tuple[int, Generate, virtual.Store]]] = {
    "clear_refs": (0o200, fixed(""), own.clear_refs),
    "comm": (0o644, _formatted(b"%b\n", "task.name"), own.set_name),
    "coredump_filter": (
        0o644,
        _formatted(b"%08x\n", "controls.coredump_filter"),
        own.set_coredump_filter,
    ),
    "oom_score_adj": (0o644, _formatted(b"%d\n", "controls.oom_score_adj"), own.set_oom_score_adj),
    "timerslack_ns": (0o666, _formatted(b"%d\n", "controls.timer_slack"), own.set_timer_slack),
}
_PROCESS: Final[dict[bytes, Make]] = {
    **{name.encode(): file(generate) for name, generate in _READ_BY_ALL.items()},
    **{name.encode(): file(generate, 0o400) for name, generate in _READ_BY_OWNER.items()},
    **{name.encode(): file(generate, mode, store) for name, (mode, generate, store) in _WRITTEN.items()},
    b"cwd": virtual.magic(_cwd),
    b"exe": virtual.magic(_exe),
    b"fd": virtual.numbered(_descriptors, _descriptor, 0o500),
    b"fdinfo": virtual.numbered(_descriptors, _descriptor_details),
    b"mem": virtual.memory(0o600),
    b"ns": folder({k.encode(): _name_space(k, number) for k, number in _NAME_SPACES.items()}, 0o511),
    b"pagemap": virtual.words(maps.pagemap, 0o400),
    b"root": virtual.magic(_root),
}
"""What /proc has for the process, and for its one thread."""
