"""/proc, /sys and /etc as C libraries, allocators and runtimes parse them."""

from __future__ import annotations

import errno as E
import os
import re
import struct
from pathlib import Path

import pytest

from linux_tools import BUFFER, RDWR, U64, WRONLY, Elf, Guest

PAGE = 4096
PRIVATE_ANONYMOUS = 0x22


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    (tmp_path / "file").write_bytes(bytes(3 * PAGE))
    return Guest(tmp_path)


def read(guest: Guest, path: str) -> str:
    data = guest.contents(path)
    assert isinstance(data, bytes), path
    return data.decode()


def lines(guest: Guest, path: str) -> dict[str, str]:
    """A file of names and values."""
    pairs = (line.split(":", 1) for line in read(guest, path).splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def test_maps_are_as_runtimes_scan_them(guest: Guest) -> None:
    guest.call("mmap", 0, PAGE, 1, 1, guest.open("file"), PAGE)
    form = r"([0-9a-f]+)-([0-9a-f]+) ([r-][w-][x-][ps]) ([0-9a-f]{8}) ([0-9a-f]{2}):([0-9a-f]{2}) (\d+) *(.*)"
    found = []
    for line in read(guest, "/proc/self/maps").splitlines():
        match = re.fullmatch(form, line)
        assert match, line
        found.append((int(match[1], 16), int(match[2], 16), match[3], int(match[4], 16), match[8]))
        assert not match[8] or line.index(match[8]) == 73
    assert [(start, end) for start, end, *_ in found] == [(r.start, r.end) for r in guest.memory.regions()]
    assert [place[2:4] for place in found if place[4].endswith("/file")] == [("r--s", PAGE)]


def test_smaps_say_what_each_mapping_has_in_memory(guest: Guest) -> None:
    start = guest.call("mmap", 0, 4 * PAGE, 3, PRIVATE_ANONYMOUS, -1, 0)
    guest.memory.write(start + PAGE, bytes(2 * PAGE))
    _, _, after = read(guest, "/proc/self/smaps").partition(f"{start:08x}-")
    details = dict(re.findall(r"^(\w+): +(\d+) kB$", after.partition("VmFlags")[0], re.MULTILINE))
    assert (details["Size"], details["Rss"], details["Private_Dirty"], details["Swap"]) == (
        "16",
        "8",
        "8",
        "0",
    )
    assert re.search(r"^VmFlags: rd wr mr mw me ac $", after, re.MULTILINE)
    whole = lines(guest, "/proc/self/smaps_rollup")
    assert whole["Rss"] == f"{guest.memory.private_bytes >> 10} kB"


def test_numbers_of_memory_agree(guest: Guest) -> None:
    read(guest, "/proc/self/status")  # which touches the memory that it is read into
    status, statm = lines(guest, "/proc/self/status"), list(map(int, read(guest, "/proc/self/statm").split()))
    size = sum(region.end - region.start for region in guest.memory.regions())
    assert status["VmSize"] == f"{size >> 10} kB" and statm[0] == size // PAGE
    assert status["VmRSS"] == f"{guest.memory.private_bytes >> 10} kB" and len(statm) == 7
    assert int(read(guest, "/proc/self/stat").rpartition(")")[2].split()[20]) == size
    memory = lines(guest, "/proc/meminfo")
    assert memory["MemTotal"] == f"{4 << 20} kB" and memory["MemAvailable"] == memory["MemFree"]
    assert all(re.fullmatch(r"\d+( kB)?", value) for value in memory.values())


def test_the_system(guest: Guest) -> None:
    assert re.fullmatch(r"cpu  (\d+ ){9}\d+\ncpu0 (\d+ ){9}\d+\n(\w+ .*\n)*", read(guest, "/proc/stat"))
    assert re.fullmatch(r"\d+\.\d\d \d+\.\d\d\n", read(guest, "/proc/uptime"))
    assert re.fullmatch(r"\d\.\d\d \d\.\d\d \d\.\d\d \d/\d \d+\n", read(guest, "/proc/loadavg"))
    assert re.match(r"Linux version (\d+)\.(\d+)\.", read(guest, "/proc/version"))
    for kind in ("online", "possible", "present"):
        assert read(guest, f"/sys/devices/system/cpu/{kind}") == "0\n"
    assert re.search(r"\[\w+\]", read(guest, "/sys/kernel/mm/transparent_hugepage/enabled"))
    assert read(guest, "/proc/sys/vm/overcommit_memory") == "1\n", "no mapping is too large"
    for line in read(guest, "/proc/self/mountinfo").splitlines():
        before, dash, after = line.partition(" - ")
        assert dash and len(before.split()) == 6 and len(after.split()) == 3
    assert read(guest, "/proc/mounts") == read(guest, "/proc/self/mounts")
    assert read(guest, "/proc/self/cgroup") == "0::/\n"


def test_limits_are_those_that_are_set(guest: Guest) -> None:
    assert guest.call("setrlimit", 7, struct.pack("<2Q", 100, 200)) == 0
    assert guest.call("setrlimit", 9, struct.pack("<2Q", 1 << 33, U64)) == 0
    table = read(guest, "/proc/self/limits").splitlines()
    assert len(table) == 17 and len(set(map(len, table))) == 1
    assert f"{'Max open files':26}{'100':21}{'200':21}{'files':10}" in table
    assert f"{'Max address space':26}{1 << 33:<21}{'unlimited':21}{'bytes':10}" in table


def test_arguments_and_environment_are_those_in_memory(tmp_path: Path) -> None:
    guest = Guest(tmp_path, args=["one", "two"], env={"A": "b", "C": "d"})
    assert guest.contents("/proc/self/cmdline") == b"program\0one\0two\0"
    assert guest.contents("/proc/self/environ") == b"A=b\0C=d\0"
    start, environment, end = guest.process.strings
    assert guest.bytes(end - start, start) == b"program\0one\0two\0A=b\0C=d\0"
    guest.memory.write(start, b"a new title, ".ljust(environment - start, b"x") + b"y\0")
    title = guest.contents("/proc/self/cmdline")
    assert title == b"a new title, ".ljust(environment - start, b"x") + b"y"
    fields = read(guest, "/proc/self/stat").rpartition(")")[2].split()
    assert [int(fields[n]) for n in (45, 46, 47, 48)] == [start, environment, environment, end]
    guest.memory.unmap(start & -PAGE, PAGE)
    assert guest.contents("/proc/self/cmdline") == guest.contents("/proc/self/environ") == b""


def test_where_the_program_is(guest: Guest) -> None:
    fields = read(guest, "/proc/self/stat").rpartition(")")[2].split()
    code, end, stack = (int(fields[n]) for n in (23, 24, 25))
    assert code <= guest.process.loaded.entry < end and stack == guest.process.loaded.sp


def test_memory_is_read_and_written_whatever_its_permissions(guest: Guest) -> None:
    start = guest.call("mmap", 0, PAGE, 0, PRIVATE_ANONYMOUS, -1, 0)
    fd = guest.open("/proc/self/mem", RDWR)
    guest.memory.write(BUFFER, b"data")
    assert guest.call("pwrite64", fd, BUFFER, 4, start + PAGE - 4) == 4
    assert guest.call("pwrite64", fd, BUFFER, 4, start + PAGE - 2) == 2
    assert guest.call("pread64", fd, BUFFER + 100, 50, start + PAGE - 4) == 4
    assert guest.bytes(4, BUFFER + 100) == b"dada"
    for address in (start + PAGE, 1 << 39, 1 << 60):
        assert guest.call("pread64", fd, BUFFER, 4, address) == -E.EIO
    assert guest.call("mmap", 0, PAGE, 1, 2, fd, 0) == -E.ENODEV


def test_directories_list_what_can_be_opened(guest: Guest) -> None:
    """Every file says something, or says why not; those of /sys and of process 1, too."""
    pending, seen = ["/proc", "/sys"], 0
    while pending:
        path = pending.pop()
        names = guest.names(path)
        assert isinstance(names, list), path
        for name in names[2:]:
            child = f"{path}/{name.decode()}"
            status = guest.stat(child, 0x100)
            assert isinstance(status, tuple), child
            kind = status[2] >> 12
            if kind == 4 and not child.startswith("/proc/1000/task"):
                pending.append(child)
            elif kind == 8:
                seen += 1
                gone = child.endswith(("/mem", "/pagemap", "/fdinfo/3"))
                assert isinstance(guest.contents(child), bytes) or gone, child
    assert seen > 120


def test_inodes_stay_and_differ(guest: Guest) -> None:
    paths = ["/proc/version", "/proc/self/stat", "/proc/thread-self/stat", "/proc/1/stat", "/sys/devices"]
    first = [guest.stat(path)[1] for path in paths]  # type: ignore[index]
    assert first == [guest.stat(path)[1] for path in paths] and len(set(first)) == len(paths)  # type: ignore[index]
    for directory in ("/proc", "/proc/sys/kernel"):
        fd = guest.open(directory)
        length = guest.call("getdents64", fd, BUFFER, 30_000)
        assert length > 0


def test_what_cannot_be_changed(guest: Guest) -> None:
    for path in (
        "/proc/version",
        "/proc/sys/kernel/hostname",
        "/proc/1/comm",
        "/sys/devices/system/cpu/online",
    ):
        assert guest.open(path, WRONLY) == -E.EACCES, path
    assert guest.call("unlinkat", -100, "/proc/self/comm", 0) == -E.EPERM
    assert guest.call("mkdirat", -100, "/sys/new", 0o755) in (-E.EPERM, -E.ENOENT)
    assert guest.open("/proc/self/fdinfo/99") == -E.ENOENT == guest.open("/proc/self/fd/99")
    assert guest.open("/dev/ptmx", RDWR) == -E.ENXIO


def test_paths_lead_out_of_the_tree_again(guest: Guest) -> None:
    """Also after a snapshot: what is below /proc belongs to the files of that moment."""
    process = guest.process
    assert guest.call("chdir", "/proc/self/task/1000") == 0
    saved = process.snapshot()
    for _ in range(2):
        assert guest.contents("../../../version") == guest.contents("/proc/version")
        assert guest.call("getcwd", BUFFER, 100) > 0
        assert guest.bytes(20).startswith(b"/proc/1000/task/1000")
        assert guest.put("../../../../tmp/new", b"new") == 3
        process.restore(saved)
        assert guest.open("../../../../tmp/new") == -E.ENOENT


def test_users(tmp_path: Path) -> None:
    users = read(Guest(tmp_path), "/etc/passwd").splitlines()
    assert users[0] == "root:x:0:0:root:/root:/bin/sh"
    assert any(line.split(":")[2] == str(os.getuid()) for line in users)
    assert all(len(line.split(":")) == 7 for line in users)
    (tmp_path / "root").mkdir()
    assert Guest(tmp_path, root=tmp_path / "root").open("/etc/passwd") == -E.ENOENT, "a root is as it is"


def test_the_program_is_named_once(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Elf().data())
    guest = Guest(tmp_path, program=program)
    (line,) = [line for line in read(guest, "/proc/self/maps").splitlines() if "program" in line]
    assert line.endswith(str(program)) and line.split()[4] == str(program.stat().st_ino)
