"""The command line, as a user meets it: a process with arguments, files and an exit code."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from linux_tools import Elf
from patience import SECONDS
from places import GUESTS


def kvrm(*arguments: str | Path, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "kvrm", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=os.environ | more,
        timeout=SECONDS,
    )


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line on stderr that a failed command leaves."""
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("kvrm: ")
    assert "Traceback" not in lines[0]
    return lines[0]


@pytest.fixture(scope="module", autouse=True)
def compiled(examples: Path) -> None:
    """The first start on a machine compiles and says so; the tests look at later starts."""
    for guest in ("hello", "faults", "expression"):
        kvrm("run", examples / guest)


def test_run_passes_output_and_exit_code_on(examples: Path) -> None:
    done = kvrm("run", examples / "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"Hello from AArch64.\n", b"")


def test_a_first_start_says_what_it_compiles(
    examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVRM_CACHE", str(tmp_path))
    monkeypatch.delenv("KVRM_ENGINE", raising=False)
    first, second = kvrm("run", examples / "hello"), kvrm("run", examples / "hello")
    assert re.fullmatch(rb"kvrm: compiling \d+ instruction handlers for this program .*\n", first.stderr)
    assert second.stderr == b""


def test_run_reads_standard_input(examples: Path) -> None:
    data = bytes(range(256)) * 5
    done = kvrm("run", examples / "sha256", stdin=data)
    assert done.stdout.decode().strip() == hashlib.sha256(data).hexdigest()


def test_run_returns_what_the_guest_returns(examples: Path) -> None:
    done = kvrm("run", examples / "expression", stdin=b"2 * (3 + 4)\n1 / 0\n")
    assert (done.returncode, done.stdout) == (1, b"14\nerror: division by zero\n")


def test_arguments_after_the_program_are_the_guests(examples: Path) -> None:
    done = kvrm("run", examples / "faults", "--stats", "--help", "--", "-x")
    assert done.returncode == 2
    assert done.stdout == b"about to do: --stats\nunknown kind\n"
    assert done.stderr == b""


@pytest.mark.parametrize("engine", ["reference", "interpreter", "tiered"])
def test_stats_is_one_line_of_json(examples: Path, engine: str) -> None:
    done = kvrm("run", "--engine", engine, "--stats", examples / "hello")
    stats = json.loads(done.stderr)
    assert stats.keys() == {
        "retired",
        "seconds",
        "ips",
        "stop",
        "instructions",
        "time",
        "regions",
        "calls",
        "policies",
        "replaced",
    }
    assert (stats["retired"], stats["stop"]) == (8, "exit")
    assert sum(stats["instructions"].values()) == 8
    assert sum(stats["time"].values()) == pytest.approx(stats["seconds"], abs=1e-4)
    assert stats["calls"] == {"write": 1, "exit_group": 1}


@pytest.mark.parametrize(
    ("kind", "signal", "words"),
    [
        ("null", 11, ["0x0"]),
        ("read", 11, ["0x123456789000"]),
        ("constant", 11, ["write"]),
        ("jump", 11, ["0x123456789000"]),
        ("stack", 11, []),
        ("undefined", 4, ["00000000"]),
        ("break", 5, []),
        ("abort", 6, []),
    ],
)
def test_a_fatal_signal_or_fault_gives_128_and_its_number(
    examples: Path, kind: str, signal: int, words: list[str]
) -> None:
    done = kvrm("run", examples / "faults", kind)
    assert done.returncode == 128 + signal
    assert done.stdout == f"about to do: {kind}\n".encode()
    text = complaint(done)
    assert all(word in text for word in words), text


def test_the_budget_stops_an_endless_guest(examples: Path) -> None:
    done = kvrm("run", "--max-instructions", "100000", "--stats", examples / "faults", "loop")
    assert done.returncode == 124
    line, stats = done.stderr.decode().splitlines()
    assert line.startswith("kvrm: ")
    assert json.loads(stats)["retired"] == 100_000


ATOMIC = (0xD2800000, 0xF82003E1, 0xD2800BA8, 0xD4000001)  # mov x0, #0; ldadd x0, x1, [sp]; exit(0)


@pytest.mark.parametrize(
    ("features", "code"), [([], 0), (["armv8.0"], 128 + 4), (["armv8.0,FEAT_LSE"], 0), (["all"], 0)]
)
def test_features_decide_what_is_allocated(tmp_path: Path, features: list[str], code: int) -> None:
    code_at_entry = {0x800: struct.pack("<4I", *ATOMIC)}
    (tmp_path / "atomic").write_bytes(Elf(patches=code_at_entry).data())
    options = [option for name in features for option in ("--features", name)]
    done = kvrm("run", *options, tmp_path / "atomic")
    assert done.returncode == code
    assert not code or "f82003e1" in complaint(done)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        # sub sp, sp, #8; str x0, [sp, #8]
        ((0xD10023FF, 0xF90007E0), r"SP alignment fault at pc 0x400804: sp 0x\w+8 is not a multiple of 16"),
        # adr x0, . + 2; br x0
        ((0x50000000, 0xD61F0000), "fetch of 0x400802 at pc 0x400802: not aligned"),
    ],
    ids=["sp", "pc"],
)
def test_sp_or_pc_that_is_not_aligned_is_a_bus_error(
    tmp_path: Path, words: tuple[int, int], line: str
) -> None:
    program = tmp_path / "unaligned"
    program.write_bytes(Elf(patches={0x800: struct.pack("<2I", *words)}).data())
    done = kvrm("run", "--engine", "reference", program)  # which compiles nothing
    assert done.returncode == 128 + 7
    assert re.search(line, complaint(done))


def test_environment_is_empty_but_for_what_is_asked(guest_root: Path) -> None:
    from guests.fetch import program

    busybox = program(guest_root, "busybox")
    done = kvrm("run", "--env", "A=1=2", "--env", "GIVEN", "--env", "ABSENT", busybox, "env", GIVEN="host")
    assert sorted(done.stdout.splitlines()) == [b"A=1=2", b"GIVEN=host"]


def test_only_rw_reaches_the_host(guest_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from guests.fetch import program

    busybox = program(guest_root, "busybox")
    monkeypatch.chdir(tmp_path)
    assert kvrm("run", busybox, "tee", "kept", stdin=b"x").returncode == 0
    assert not list(tmp_path.iterdir())
    assert kvrm("run", "--rw", tmp_path, busybox, "tee", "kept", stdin=b"x").returncode == 0
    assert (tmp_path / "kept").read_bytes() == b"x"


def test_lanes_read_files_of_a_directory_or_lines(examples: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for number in range(30):
        (tmp_path / "in" / f"{number:02}").write_bytes(b"%d * 2\n" % number)
    lines = tmp_path / "lines"
    lines.write_bytes(b"1 + 2\n1 / 0\n3 + 4\n")
    done = kvrm("run", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out", examples / "expression")
    assert done.returncode == 0 and b"and 10 more lanes" in done.stdout
    assert [(tmp_path / "out" / f"{n:02}.out").read_bytes() for n in (3, 29)] == [b"6\n", b"58\n"]
    done = kvrm("run", "--inputs", lines, examples / "expression")
    assert done.returncode == 1 and b"3 lanes on cpu: 3 exit" in done.stdout
    done = kvrm("run", "--lanes", "2", "--inputs", lines, "--target", "auto", examples / "expression")
    assert done.returncode == 1 and b"2 lanes on " in done.stdout
    done = kvrm("run", "--lanes", "4", "--inputs", lines, examples / "expression")
    assert done.returncode == 2 and "has 3 inputs, fewer than 4 lanes" in complaint(done)


def test_what_a_lane_prints_is_no_markup(guest_root: Path) -> None:
    from guests.fetch import program

    done = kvrm("run", "--lanes", "1", program(guest_root, "busybox"), "printf", "[/x] [red]a\\033[2Jb")
    assert done.returncode == 0 and b"[/x] [red]a" in done.stdout and b"\x1b[2J" not in done.stdout


def test_demo(examples: Path) -> None:
    done = kvrm("demo")
    assert done.returncode == 0
    assert done.stdout.count(b"@") > 400
    assert b"instructions in" in done.stdout


def test_where_word() -> None:
    done = kvrm("where", "0x91001420")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert text.startswith("0x91001420  add x0, x1, #5\n")
    assert "ADD (immediate)" in text
    place = next(row.split()[-1] for row in text.splitlines() if row.startswith("defined in"))
    path, _, line = place.rpartition(":")
    assert Path(path).read_text().splitlines()[int(line) - 1].startswith("@")
    assert "imm12" in text
    assert "000000000101" in text


def test_where_in_a_program(examples: Path) -> None:
    by_symbol = kvrm("where", f"{examples / 'hello'}@_start")
    by_address = kvrm("where", f"{examples / 'hello'}@0x400078")
    assert by_symbol.returncode == 0
    assert by_symbol.stdout == by_address.stdout
    assert b"_start" in by_symbol.stdout
    assert b"mov x0, #1" in by_symbol.stdout.splitlines()[0]


def test_disasm(examples: Path) -> None:
    done = kvrm("disasm", examples / "hello")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert "0000000000400078 <_start>:" in lines
    assert any(line.startswith("  400088:  d4000001  svc") for line in lines)


def test_disasm_names_branch_targets(examples: Path) -> None:
    text = kvrm("disasm", examples / "expression").stdout.decode()
    assert re.search(r"  bl #0x[0-9a-f]+ <sum>$", text, re.MULTILINE)
    assert re.search(r"  b\.ne #0x[0-9a-f]+ <factor\+0x[0-9a-f]+>$", text, re.MULTILINE)


def test_disasm_between_two_places(examples: Path) -> None:
    done = kvrm("disasm", "--start", "0x400088", "--stop", "message", examples / "hello")
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("  4")]
    assert [line.split(":")[0].strip() for line in lines] == ["400088", "40008c", "400090", "400094"]


HELLO = GUESTS / "hello"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "no-such-file"],
        ["run", __file__],
        ["run", sys.executable],
        ["run", "."],
        ["run", "--engine", "steam", HELLO],
        ["run", "--max-instructions", "-1", HELLO],
        ["run", "--max-instructions", "many", HELLO],
        ["run", "--root", "no-such-directory", HELLO],
        ["run", "--env", "=x", HELLO],
        ["run", "--features", "cortex-m0", HELLO],
        ["run", "--features", "armv8.0,FEAT_SVE", HELLO],
        ["run", "--features", "", HELLO],
        ["run", "--unknown", HELLO],
        ["run", "--target", "gpu", HELLO],
        ["run", "--lanes", "0", HELLO],
        ["run", "--lanes", "99999999999", HELLO],
        ["run", "--lanes", "2", "--stats", HELLO],
        ["run", "--inputs", "no-such-file", HELLO],
        ["run", "--outputs", "no-such-directory", HELLO],
        ["profile"],
        ["profile", "no-such-file"],
        ["profile", "--top", "-1", HELLO],
        ["where"],
        ["where", "xyz"],
        ["where", "0x123456789"],
        ["where", "0xffffffff"],
        ["where", "no-such-file@0"],
        ["where", f"{HELLO}@0x10"],
        ["where", f"{HELLO}@nothing"],
        ["disasm", "no-such-file"],
        ["disasm", __file__],
        ["disasm", "--start", "nothing", HELLO],
        ["unknown"],
    ],
    ids=lambda arguments: " ".join(Path(a).name for a in arguments),
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str | Path]) -> None:
    done = kvrm(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    complaint(done)


def test_bad_engine_in_the_environment(examples: Path) -> None:
    done = kvrm("run", examples / "hello", KVRM_ENGINE="steam")
    assert done.returncode == 2
    assert "steam" in complaint(done)


def test_a_truncated_program_is_one_line(examples: Path, tmp_path: Path) -> None:
    whole = (examples / "sha256").read_bytes()
    for size in (0, 3, 16, 63, 64, 100, 200, 1000, len(whole) - 300):
        (tmp_path / "cut").write_bytes(whole[:size])
        for command in ("run", "disasm"):
            done = kvrm(command, tmp_path / "cut")
            if done.returncode == 2:
                complaint(done)
            assert b"Traceback" not in done.stderr


def test_a_closed_pipe_ends_quietly(examples: Path) -> None:
    line = f"'{sys.executable}' -m kvrm disasm '{examples / 'sha256'}' | head -n 1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=SECONDS)
    assert done.stderr == b""


def test_help_and_version() -> None:
    assert kvrm("--help").returncode == 0
    assert kvrm("run", "--help").returncode == 0
    assert kvrm("--version").stdout.startswith(b"kvrm ")
