"""Without `kvrm.neural`, or without the weights, each command works or says in one line what to install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kvrm
from kvrm.machine.policies import POLICIES
from places import GUESTS, REPOSITORY

INSTALL = "pip install 'kvrm[networks]'"
HELLO, SHA256 = str(GUESTS / "hello"), str(GUESTS / "sha256")
TRAINING = {"kvrm.cli.loops", "kvrm.cli.memory", "kvrm.cli.networks", "kvrm.cli.patterns"}
"""What train, prove and evaluate import when they run."""

IMPORTS = """
import importlib, json, pkgutil, kvrm
failed = []
for module in pkgutil.walk_packages(kvrm.__path__, "kvrm."):
    if module.name != "kvrm.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert error.name.startswith("kvrm.neural"), error
            failed.append(module.name)
print(json.dumps(failed))
"""
HELP = """
import typer
from kvrm.cli.commands import app
nested = [[]]
top = typer.main.get_command(app)
for path in nested:
    command = top
    for name in path:
        command = command.commands[name]
    top.main([*path, "--help"], prog_name="kvrm", standalone_mode=False)
    print("shown:", *path)
    nested += [[*path, name] for name in getattr(command, "commands", ())]
"""
COMMANDS = """
import contextlib, io, json, sys
from kvrm.cli import main
for line in json.loads(sys.argv[1]):
    sys.argv, told = ["kvrm", *line], io.StringIO()
    with contextlib.redirect_stderr(told):
        try:
            main()
        except SystemExit as ended:
            print(json.dumps([ended.code, told.getvalue()]))
"""


def copied(place: Path, *left_out: str) -> Path:
    """A copy of the package without some files; what PYTHONPATH is for it."""
    package = Path(kvrm.__file__).parent
    shutil.copytree(package, place / "kvrm", ignore=shutil.ignore_patterns("__pycache__", *left_out))
    return place


@pytest.fixture(scope="module")
def no_networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("networks"), "neural")


@pytest.fixture(scope="module")
def no_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = copied(tmp_path_factory.mktemp("weights"))
    for path in (place / "kvrm/neural/weights").iterdir():
        if path.suffix != ".py":
            path.unlink() if path.is_file() else shutil.rmtree(path)
    return place


def python(package: Path, *arguments: str, work: Path | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": str(package)}
    return subprocess.run(
        line, capture_output=True, text=True, timeout=300, env=environment, cwd=work, stdin=subprocess.DEVNULL
    )


def test_only_training_and_evaluating_import_networks(no_networks: Path) -> None:
    done = python(no_networks, "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == TRAINING


def test_every_command_has_its_help(no_networks: Path) -> None:
    done = python(no_networks, "-c", HELP)
    assert done.returncode == 0 and done.stdout.count("shown:") > 20, done.stderr


WORKING = [
    ("version",),
    ("doctor",),
    ("where", "91001420"),
    ("disasm", HELLO),
    ("run", "--stats", HELLO),
    ("profile", HELLO),
    ("run", "--lanes", "2", HELLO),
    ("symbols", "--policy", "patterns=rule", SHA256),
    ("symbols", "--policy", "patterns=table", SHA256),
    ("data", "memory", SHA256),
    *(
        ("run", "--policy", f"{question}={name}", SHA256)
        for question, names in POLICIES.items()
        for name, path in names.items()
        if not path.startswith("kvrm.neural") and f"{question}={name}" != "memory=oracle"
    ),
]
MISPLACED = ("run", "--policy", "dispatch=rule", SHA256)
"""The rule for dispatch is wrong about a word of this program, and says so."""


@pytest.mark.parametrize("line", WORKING, ids=" ".join)
def test_what_needs_no_network_works(line: tuple[str, ...], no_networks: Path, tmp_path: Path) -> None:
    done = python(no_networks, "-m", "kvrm", *line, work=tmp_path)
    assert done.returncode == (71 if line == MISPLACED else 0), done.stderr


def refused(package: Path, lines: list[tuple[str, ...]], work: Path) -> list[tuple[int, str]]:
    """Exit code and message of each command line."""
    done = python(package, "-c", COMMANDS, json.dumps(lines), work=work)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


ASKED = [
    ("symbols", SHA256),
    ("run", "--learn", "memory", HELLO),
    *(
        ("run", "--policy", f"{question}={name}", HELLO)
        for question, names in POLICIES.items()
        for name, path in names.items()
        if path.startswith("kvrm.neural")
    ),
    ("prove", "dispatch"),
    ("evaluate", "dispatch"),
    ("evaluate", "loops", HELLO),
]
"""What needs networks with their weights."""


def test_what_needs_networks_says_so(no_networks: Path, tmp_path: Path) -> None:
    lines = [
        *ASKED,
        *(("train", name) for name in ("dispatch", "memory", "patterns")),
        ("train", "loops", "--data", HELLO),
        *(("evaluate", name) for name in ("memory", "patterns")),
        ("data", "loops", HELLO),
        ("data", "patterns", HELLO),
    ]
    for line, (code, told) in zip(lines, refused(no_networks, lines, tmp_path), strict=True):
        assert code == 2 and told.count("\n") == 1 and INSTALL in told, (line, code, told)
    assert not list(tmp_path.iterdir())


def test_what_needs_weights_says_so(no_weights: Path, tmp_path: Path) -> None:
    lines = [line for line in ASKED if not any(word.endswith("=random") for word in line)]
    for line, (code, told) in zip(lines, refused(no_weights, lines, tmp_path), strict=True):
        assert code == 2 and told.count("\n") == 1 and INSTALL in told, (line, code, told)


@pytest.mark.parametrize("question", ["dispatch", "loops", "memory"])
def test_random_weights_need_none_that_ship(question: str, no_weights: Path) -> None:
    done = python(no_weights, "-m", "kvrm", "run", "--policy", f"{question}=random", HELLO)
    assert done.returncode in (0, 71) and INSTALL not in done.stderr, done.stderr


def test_the_optional_part_is_of_the_same_version() -> None:
    told = tomllib.loads((REPOSITORY / "networks/pyproject.toml").read_text())
    assert told["project"]["dependencies"] == [f"kvrm=={kvrm.__version__}"]


def test_doctor_says_what_is_missing(no_networks: Path, no_weights: Path) -> None:
    for package in (no_networks, no_weights):
        done = python(package, "-m", "kvrm", "doctor")
        _, row = done.stdout.split("\nnetworks")
        assert row.split()[0] == "missing" and INSTALL in " ".join(row.split())
