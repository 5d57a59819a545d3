"""Compiled regions on disk: killed writers, damaged files, many processes, and the process that compiles."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvrm
from kvrm import cache
from kvrm.engine.translator.store import Store
from kvrm.isa.features import CORTEX_A76
from linux_tools import Elf
from oracle.translator_side import region_around
from patience import SECONDS
from translating import assemble, needs_assembler

pytestmark = needs_assembler

KILLS = int(os.environ.get("KVRM_TEST_KILLS", 12))

LOOP = """
    ldr x9, =ITERATIONS
1:  add x0, x0, x9, lsl #3
    str x0, [sp, #-16]!
    bl 5f
    ldr x1, [sp], #16
    add x0, x0, x1
    tbz x0, #3, 2f
    eor x0, x0, #SEED
2:  subs x9, x9, #1
    b.ne 1b
    b 7f
5:  udiv x2, x0, x9
    cmp x2, #17
    csinc x0, x0, x2, hi
    b.hi 6f
    add x0, x0, #SEED
6:  ret
7:  nop
"""


def program(seed: int, iterations: int = 20, loops: int = 5) -> bytes:
    """An ELF file that computes a while and exits with what came out; another one for each seed."""
    text = "".join(LOOP.replace("SEED", str((1 << i) + seed * 32)) for i in range(1, loops + 1))
    text = text.replace("eor x0, x0, #", "mov x3, #").replace("2:  subs", "    eor x0, x0, x3\n2:  subs")
    text = text.replace("ITERATIONS", str(iterations)) + "and x0, x0, #127\n mov x8, #93\n svc #0"
    return Elf(patches={0x800: assemble(text)}).data()


def expected(elf: bytes) -> list[str]:
    """Stop, exit code and retired count, as the interpreter has them."""
    r = kvrm.Machine(elf, engine="interpreter").run()
    return [r.stop.name, str(r.exit_code), str(r.retired)]


RUN = """
import sys, kvrm
from pathlib import Path
m = kvrm.Machine(Path(sys.argv[1]).read_bytes(), engine=sys.argv[2], features=sys.argv[3])
r = m.run()
s = getattr(m.lane.engine, "_store", None)
print(r.stop.name, r.exit_code, r.retired, s.compiled if s else 0, s.from_disk if s else 0)
"""


class Runs:
    """Programs run in processes of their own, with one cache directory."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        self._directory = directory
        self._environment = os.environ | {"KVRM_CACHE": str(self.cache)}

    def start(self, elf: bytes, engine: str, features: str = "cortex-a76") -> subprocess.Popen[str]:
        path = self._directory / f"program-{hash(elf):x}"
        path.write_bytes(elf)
        return subprocess.Popen(
            [sys.executable, "-c", RUN, str(path), engine, features],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, elf: bytes, engine: str = "translator", features: str = "cortex-a76") -> list[str]:
        """Stop, exit code, retired count; regions compiled and found on disk."""
        process = self.start(elf, engine, features)
        out, err = process.communicate(timeout=SECONDS)
        assert not err and process.returncode == 0, err
        return out.split()

    @property
    def regions(self) -> list[Path]:
        return sorted(self.cache.glob("regions/*/*.region"))

    @property
    def indexes(self) -> list[Path]:
        return sorted(self.cache.glob("regions/*/*.index"))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


# -- killed writers ----------------------------------------------

FORKER = """
import os, random, signal, sys, time
import kvrm, kvrm.isa.a64
from itertools import cycle
from kvrm.engine.translator import stage
from pathlib import Path

def start(elf, wanted):
    pid = os.fork()
    if pid:
        return pid
    try:
        r = kvrm.Machine(elf, engine="translator").run()
        os._exit(f"{r.stop.name} {r.exit_code} {r.retired}" != wanted)
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(2)

def finish(elf, wanted):
    began = time.monotonic()
    code = os.waitpid(start(elf, wanted), 0)[1]
    assert code == 0, code
    return time.monotonic() - began

def forget():
    for path in Path(os.environ["KVRM_CACHE"]).glob("regions/*/*"):
        path.unlink()

rng = random.Random(int(sys.argv[1]))
kills = int(sys.argv[2])
programs = [(p.read_bytes(), p.with_suffix(".wanted").read_text()) for p in map(Path, sys.argv[3:])]
for program in programs:
    finish(*program)
forget()
usual = finish(*programs[0])
for program in cycle(programs):
    if rng.random() < 0.7:
        forget()
    pid = start(*program)
    time.sleep(rng.random() * usual)
    os.kill(pid, signal.SIGKILL)
    kills -= os.waitpid(pid, 0)[1] == signal.SIGKILL
    finish(*program)
    if not kills:
        break
"""


def test_killed_while_it_writes(runs: Runs, tmp_path: Path) -> None:
    """Whenever a process dies, the next one finds a cache that it can use."""
    paths = []
    for seed in range(7):
        path, elf = tmp_path / f"{seed}.elf", program(seed, loops=2)
        path.write_bytes(elf)
        path.with_suffix(".wanted").write_text(" ".join(expected(elf)))
        paths.append(str(path))
    environment = os.environ | {"KVRM_CACHE": str(runs.cache)}
    command = [sys.executable, "-c", FORKER, str(random.randrange(1 << 30)), str(KILLS), *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    assert runs.indexes
    assert all(cache.read_checked(path) is not None for path in [*runs.regions, *runs.indexes])


# -- what the next start finds -------------------------------------


def test_the_next_start_compiles_nothing(runs: Runs) -> None:
    first, second = runs.run(program(1)), runs.run(program(1))
    assert first[:3] == second[:3] == expected(program(1))
    assert int(first[3]) > 3 and second[3] == "0" and second[4] == first[3]


def _damage(rng: random.Random, data: bytes) -> bytes:
    pick = rng.randrange(4)
    if pick == 0:
        return data[: rng.randrange(len(data))]
    if pick == 1:
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    return b"" if pick == 2 else rng.randbytes(len(data))


def test_damaged_files_are_made_again(runs: Runs) -> None:
    rng = random.Random(1)
    first = runs.run(program(1))
    good = {path: path.read_bytes() for path in [*runs.regions, *runs.indexes]}
    for iteration in range(6):
        for path in rng.sample(sorted(good), 1 + iteration):
            path.write_bytes(_damage(rng, good[path]))
        assert runs.run(program(1))[:3] == first[:3] == expected(program(1))
        assert set(runs.regions) | set(runs.indexes) == set(good)
        assert all(cache.read_checked(path) is not None for path in good)
    assert runs.run(program(1))[3] == "0"


def test_files_of_other_regions_do_no_harm(runs: Runs) -> None:
    """A file that is whole, but under another's name, as a disk might leave it."""
    first = runs.run(program(1))
    regions = runs.regions
    contents = [path.read_bytes() for path in regions]
    for path, content in zip(regions, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    assert runs.run(program(1))[:3] == first[:3]


def test_a_list_is_for_one_set_of_features(runs: Runs) -> None:
    """What was compiled for a processor with atomics is not used by one without."""
    text = "mov x9, #5000\n1: ldadd x9, x0, [sp]\n sub x9, x9, #1\n cbnz x9, 1b\n mov x8, #93\n svc #0"
    elf = Elf(patches={0x800: assemble(text)}).data()
    for features in ("cortex-a76", "armv8.0", "cortex-a76", "armv8.0"):
        stop, _, retired, *_ = runs.run(elf, features=features)
        assert (stop, retired) == (("UNDEFINED", "1") if features == "armv8.0" else ("EXIT", "15003"))


def test_processes_at_once(runs: Runs) -> None:
    for seed in range(3):
        processes = [runs.start(program(seed), "translator") for _ in range(4)]
        for process in processes:
            out, err = process.communicate(timeout=SECONDS)
            assert not err and out.split()[:3] == expected(program(seed))
    assert all(cache.read_checked(path) is not None for path in [*runs.regions, *runs.indexes])
    assert not [p for p in runs.cache.glob("regions/*/*") if p.suffix not in (".region", ".index")]


# -- size -------------------------------------------------------------


def _store(directory: Path) -> Iterator[tuple[Store, Path]]:
    """Stores, each as in a fresh process, and the file of the region that each makes."""
    for number in range(40):
        store = Store(directory)
        region = region_around((0x91000000 | number << 10, 0xD65F03C0), CORTEX_A76)
        store.make(region)
        yield store, directory / f"{region.key}.region"


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 20_000
    monkeypatch.setattr("kvrm.engine.translator.store.LARGEST_CACHE", limit)
    made = []
    for number, (_, path) in enumerate(_store(tmp_path)):
        os.utime(path, (1000 + number, 1000 + number))
        made.append(path)
        (tmp_path / f"tmp{number}").write_bytes(bytes(500))  # as a killed process leaves them
        os.utime(tmp_path / f"tmp{number}", (1000 + number, 1000 + number))
        assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= limit + 500
    kept = [path.exists() for path in made]
    assert 3 < kept.count(True) < 40 and kept == sorted(kept)


def test_shrink_keeps_the_newest(tmp_path: Path) -> None:
    for i in range(10):
        path = tmp_path / f"{i}.region"
        path.write_bytes(bytes(100))
        os.utime(path, (i, i))
    (tmp_path / "other").write_bytes(bytes(1000))
    cache.shrink(tmp_path, "*.region", 350)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["7.region", "8.region", "9.region", "other"]
    cache.shrink(tmp_path, "*.region", 0)
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


# -- the process that compiles -------------------------------------------

LONG = 40_000_000


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _worker(process: subprocess.Popen[str]) -> int:
    """The process that compiles for another one, once it is there."""
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if children := _children(process.pid):
            return children[0]
        time.sleep(0.005)
    raise AssertionError("nothing was compiled")


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            if " Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_regions_come_from_another_process(runs: Runs) -> None:
    elf = program(3, iterations=2_000_000)
    deadline = time.monotonic() + SECONDS
    while not runs.indexes:  # a program may end before the process that compiles has begun
        assert time.monotonic() < deadline
        assert runs.run(elf, "tiered")[:3] == expected(elf)
        time.sleep(1)
    assert runs.regions
    assert int(runs.run(elf, "tiered")[4]) > 0


def test_the_compiling_process_is_killed(runs: Runs) -> None:
    """The program goes on without a word."""
    elf = program(4, iterations=2_000_000)
    wanted = expected(elf)
    for wait in (0.0, 0.3, 1.0):
        process = runs.start(elf, "tiered")
        worker = _worker(process)
        time.sleep(wait)
        os.kill(worker, signal.SIGKILL)
        out, err = process.communicate(timeout=SECONDS)
        assert not err and out.split()[:3] == wanted


def test_the_compiling_process_ends_after_its_parent_is_killed(runs: Runs) -> None:
    elf = program(6, iterations=20_000_000)
    for wait in (0.0, 0.2, 0.8):
        process = runs.start(elf, "tiered")
        worker = _worker(process)
        time.sleep(wait)
        process.kill()
        _, err = process.communicate(timeout=SECONDS)
        assert not err
        assert _ends(worker)


@pytest.mark.parametrize("sent", [0, 3, 8, 1000])
def test_a_message_that_is_cut_short_ends_the_compiling_process(sent: int) -> None:
    command = [sys.executable, "-c", "from kvrm.engine.translator.background import serve; serve()"]
    message = struct.pack("<Q", 5000) + bytes(992)
    done = subprocess.run(command, input=message[:sent], capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
