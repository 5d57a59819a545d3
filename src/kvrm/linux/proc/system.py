"""The machine as /proc and /sys tell of it: one processor of a Cortex-A76, 4 GiB of memory, Linux 6.1.

It is the same on every host. Formats are those of Linux, which C libraries, allocators and runtimes parse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kvrm.isa.features import cpuinfo_features
from kvrm.linux import abi
from kvrm.linux.clock import EPOCH
from kvrm.linux.layout import BILLION

if TYPE_CHECKING:
    from kvrm.linux.process import Process

RELEASE: Final = "6.1.0"
VERSION: Final = "#1 SMP"
HOSTNAME: Final = "kvrm"
DOMAINNAME: Final = "(none)"
MEMORY_BYTES: Final = 4 << 30

Generate = Callable[["Process"], bytes]

_CPUINFO: Final = """\
processor\t: 0
BogoMIPS\t: 100.00
Features\t: {features}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd0b
CPU revision\t: 1

"""
_DEVICES: Final = """\
Character devices:
  1 mem
  5 /dev/tty
  5 /dev/ptmx
 10 misc
136 pts

Block devices:
"""
_UNUSED: Final = (
    "Buffers Cached SwapCached Active Inactive Active(anon) Inactive(anon) Active(file) Inactive(file) "
    "Unevictable Mlocked SwapTotal SwapFree Dirty Writeback AnonPages Mapped Shmem KReclaimable Slab "
    "SReclaimable SUnreclaim KernelStack PageTables NFS_Unstable Bounce WritebackTmp"
)
"""Kinds of memory, in the order of /proc/meminfo."""
_FILESYSTEMS: Final = "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tpipefs\n\text4\n"


def fixed(text: str) -> Generate:
    """A file that always says the same."""
    return partial(_fixed, text.encode())


def _fixed(data: bytes, process: Process) -> bytes:
    return data


def _cpuinfo(process: Process) -> bytes:
    return _CPUINFO.format(features=cpuinfo_features(process.kernel.features)).encode()


def _meminfo(process: Process) -> bytes:
    used = process.memory.private_bytes
    free = max(0, MEMORY_BYTES - used)
    sizes = {"MemTotal": MEMORY_BYTES, "MemFree": free, "MemAvailable": free}
    sizes |= dict.fromkeys(_UNUSED.split(), 0)
    sizes |= {"Active": used, "Active(anon)": used, "AnonPages": used}
    sizes |= {"CommitLimit": MEMORY_BYTES, "Committed_AS": used, "VmallocTotal": 1 << 47, "VmallocUsed": 0}
    lines = [f"{name + ':':16}{size >> 10:8} kB\n" for name, size in sizes.items()]
    pages = "HugePages_Total HugePages_Free HugePages_Rsvd HugePages_Surp"
    lines += [f"{name + ':':16}{0:8}\n" for name in pages.split()]
    return "".join([*lines, f"{'Hugepagesize:':16}{2048:8} kB\n", f"{'Hugetlb:':16}{0:8} kB\n"]).encode()


def _stat(process: Process) -> bytes:
    used = process.cpu_time * abi.CLOCK_TICKS // BILLION
    idle = process.kernel.uptime * abi.CLOCK_TICKS // BILLION - used
    times = f"{used} 0 0 {idle} 0 0 0 0 0 0\n"
    rest = f"intr 0\nctxt 0\nbtime {EPOCH}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
    return f"cpu  {times}cpu0 {times}{rest}softirq 0 0 0 0 0 0 0 0 0 0 0\n".encode()


def _uptime(process: Process) -> bytes:
    up, idle = (ns // (BILLION // 100) for ns in (process.kernel.uptime, process.kernel.skipped))
    return f"{up // 100}.{up % 100:02} {idle // 100}.{idle % 100:02}\n".encode()


def _uuid(process: Process) -> bytes:
    """A random UUID, another one each time."""
    data = bytearray(process.kernel.random_bytes(16))
    data[6], data[8] = data[6] & 0x0F | 0x40, data[8] & 0x3F | 0x80
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])).encode() + b"\n"


PROC: Final[dict[str, Generate]] = {
    "cmdline": fixed("\n"),
    "cpuinfo": _cpuinfo,
    "devices": fixed(_DEVICES),
    "filesystems": fixed(_FILESYSTEMS),
    "loadavg": fixed("0.00 0.00 0.00 1/1 1000\n"),
    "locks": fixed(""),
    "meminfo": _meminfo,
    "modules": fixed(""),
    "stat": _stat,
    "swaps": fixed("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
    "uptime": _uptime,
    "version": fixed(f"Linux version {RELEASE} ({HOSTNAME}) {VERSION}\n"),
    "sys/kernel/random/uuid": _uuid,
    **{
        f"sys/{name}": fixed(f"{value}\n")
        for name, value in {
            "fs/aio-max-nr": 65536,
            "fs/epoll/max_user_watches": 524288,
            "fs/file-max": 9223372036854775807,
            "fs/file-nr": "32\t0\t9223372036854775807",
            "fs/inotify/max_queued_events": 16384,
            "fs/inotify/max_user_instances": 128,
            "fs/inotify/max_user_watches": 65536,
            "fs/nr_open": 1048576,
            "fs/overflowgid": 65534,
            "fs/overflowuid": 65534,
            "fs/pipe-max-size": 1048576,
            "fs/pipe-user-pages-hard": 0,
            "fs/pipe-user-pages-soft": 16384,
            "fs/suid_dumpable": 0,
            "kernel/cap_last_cap": abi.CAP_LAST_CAP,
            "kernel/core_pattern": "core",
            "kernel/core_uses_pid": 0,
            "kernel/dmesg_restrict": 0,
            "kernel/domainname": DOMAINNAME,
            "kernel/hostname": HOSTNAME,
            "kernel/kptr_restrict": 0,
            "kernel/msgmax": 8192,
            "kernel/msgmnb": 16384,
            "kernel/msgmni": 32000,
            "kernel/ngroups_max": 65536,
            "kernel/osrelease": RELEASE,
            "kernel/ostype": "Linux",
            "kernel/overflowgid": 65534,
            "kernel/overflowuid": 65534,
            "kernel/pid_max": 32768,
            "kernel/random/boot_id": "00000000-0000-4000-8000-000000000000",
            "kernel/random/entropy_avail": 256,
            "kernel/random/poolsize": 256,
            "kernel/randomize_va_space": 0,
            "kernel/sched_rr_timeslice_ms": 100,
            "kernel/sem": "32000\t1024000000\t500\t32000",
            "kernel/shmall": 18446744073692774399,
            "kernel/shmmax": 18446744073692774399,
            "kernel/shmmni": 4096,
            "kernel/tainted": 0,
            "kernel/threads-max": 1024,
            "kernel/unprivileged_bpf_disabled": 2,
            "kernel/version": VERSION,
            "net/core/somaxconn": 4096,
            "net/ipv4/ip_local_port_range": "32768\t60999",
            "vm/legacy_va_layout": 0,
            "vm/max_map_count": 65530,
            "vm/mmap_min_addr": 65536,
            "vm/nr_hugepages": 0,
            "vm/nr_overcommit_hugepages": 0,
            "vm/overcommit_kbytes": 0,
            # memory costs what is touched, so that no mapping is refused for its size
            "vm/overcommit_memory": 1,
            "vm/overcommit_ratio": 50,
            "vm/swappiness": 60,
        }.items()
    },
}
"""Files below /proc, but for those of processes."""

SYS: Final[dict[str, Generate]] = {
    name: fixed(f"{value}\n")
    for name, value in {
        "devices/system/cpu/cpu0/topology/core_cpus_list": 0,
        "devices/system/cpu/cpu0/topology/core_id": 0,
        "devices/system/cpu/cpu0/topology/core_siblings_list": 0,
        "devices/system/cpu/cpu0/topology/physical_package_id": 0,
        "devices/system/cpu/cpu0/topology/thread_siblings_list": 0,
        "devices/system/cpu/isolated": "",
        "devices/system/cpu/kernel_max": 255,
        "devices/system/cpu/offline": "",
        "devices/system/cpu/online": 0,
        "devices/system/cpu/possible": 0,
        "devices/system/cpu/present": 0,
        "devices/system/node/has_cpu": 0,
        "devices/system/node/has_memory": 0,
        "devices/system/node/node0/cpulist": 0,
        "devices/system/node/node0/cpumap": 1,
        "devices/system/node/node0/distance": 10,
        "devices/system/node/online": 0,
        "devices/system/node/possible": 0,
        "kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never",
        "kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        "kernel/mm/transparent_hugepage/hpage_pmd_size": 2097152,
        "kernel/mm/transparent_hugepage/shmem_enabled": "always within_size advise [never] deny force",
    }.items()
}
"""Files below /sys."""

INIT: Final[dict[str, Generate]] = {
    "cmdline": fixed("init\0"),
    "comm": fixed("init\n"),
    "stat": fixed("1 (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 0" + " 0" * 30 + "\n"),
    "statm": fixed("0 0 0 0 0 0 0\n"),
    "status": fixed(
        "Name:\tinit\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t1\nNgid:\t0\nPid:\t1\nPPid:\t0\n"
        "TracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t \nThreads:\t1\n"
    ),
}
"""Files of /proc/1, the parent, which never does anything."""
