"""Compiled code is never stale: each kind of input gives it another name, and a start reads no sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite
import pytest

import kvrm
from kvrm import cache
from kvrm.staging import llvm, native, objects

PACKAGE = Path(kvrm.__file__).parent
TEXT = "define i64 @answer() {\n  ret i64 42\n}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("KVRM_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def package(home: Path) -> Path:
    """A copy of the package to change."""
    shutil.copytree(PACKAGE, home / "src/kvrm", ignore=shutil.ignore_patterns("__pycache__"))
    return home / "src/kvrm"


def names(package: Path) -> list[str]:
    """The folder that a process with that package uses for kernels, and the name of a kernel's object."""
    code = (
        "from kvrm.staging import native, objects; from kvrm.engine.interpreter.library import variants_of;"
        "from kvrm.backend.gpu.kernel import stage; from array import array;"
        "print(native.versioned('cuda').name);"
        "print(objects.name_of(stage(sorted(variants_of(array('I', [0xd4000001])))).device, 'any'))"
    )
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


# -- sources -------------------------------------------------------------------------------------------------


def test_each_file_of_the_package_counts(package: Path) -> None:
    seen = {cache.folder_hash(package)}
    assert cache.folder_hash(package) in seen
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        changed = sorted(folder.glob("*.py"))[-1]
        changed.write_bytes(changed.read_bytes() + b"#\n")
        assert cache.folder_hash(package) not in seen, changed
        seen.add(cache.folder_hash(package))
    (package / "linux/more.py").write_text("")
    assert cache.folder_hash(package) not in seen
    (package / "linux/more.py").unlink()
    assert cache.folder_hash(package) in seen


def test_a_file_of_the_same_size_and_time_is_another_one(package: Path) -> None:
    path, before = package / "linux/elf.py", cache.folder_hash(package)
    status, text = path.stat(), path.read_text()
    path.write_text(text.swapcase())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.folder_hash(package) != before
    path.write_text(text)
    assert cache.folder_hash(package) == before


def test_a_row_of_the_system_call_table_is_part_of_a_kernel(package: Path) -> None:
    before, table = names(package), package / "linux/syscall_table.py"
    text, count = re.subn(r"\b172\b", "1172", table.read_text())
    assert count == 1, "the number of getpid"
    table.write_text(text)
    after = names(package)
    assert before[0] != after[0] and before[1] != after[1]


# -- the compiler --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "llvm", "cpu"])
def test_each_input_of_a_compilation_gives_another_name(
    home: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before, text = native.compile_object(TEXT).name, TEXT
    native.fingerprint.cache_clear()
    if kind == "text":
        text = TEXT.replace("42", "43")
    elif kind == "llvm":
        monkeypatch.setattr(llvmlite, "__version__", "99.0.0")
    else:
        monkeypatch.setattr(native, "host_cpu", lambda: "another model, or other features")
    try:
        assert native.compile_object(text).name != before
    finally:
        native.fingerprint.cache_clear()


def test_the_cpu_is_told_by_what_does_not_change() -> None:
    found = native.host_cpu()
    assert len(found.split()) > 10 and found == native.host_cpu()
    assert "MHz" not in found and "\n" not in found


def test_what_was_compiled_once_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = native.compile_object(TEXT)
    monkeypatch.setattr(llvm, "compile_text", lambda *_: pytest.fail("compiled again"))
    assert native.compile_object(TEXT) == made


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(bytes(64))])
def test_a_damaged_object_is_made_again(home: Path, damage: object) -> None:
    made = native.compile_object(TEXT)
    assert callable(damage)
    damage(cache.root() / "objects" / made.name)
    assert objects.find(made.name) is None
    assert native.compile_object(TEXT) == made and objects.find(made.name) == made


# -- starts --------------------------------------------------------------------------------------------------

START = """
import sys
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
import kvrm
kvrm.Machine(sys.argv[1]).run()
print(*(path for path in opened if path.endswith(".py") and "/kvrm/" in path), sep="\\n")
"""


def test_a_start_reads_hardly_any_source_file(home: Path, examples: Path) -> None:
    command = [sys.executable, "-c", START, str(examples / "hello")]
    # Without Python's own cache every module would be read to be compiled.
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(home), "PYTHONDONTWRITEBYTECODE": ""}
    cold, warm = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert len(cold) > 200
    assert [Path(path).name for path in warm] == ["llvm.py"]
