"""The shape of the source: what its modules are called, what they import, and how long they are."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import mutations
import mutations_of_lanes
from source_tree import SOURCE, circles, foreign_underscores, imported, inherited, modules, protocols

TESTS = SOURCE.parent / "tests"
LONGEST = 400
"""Lines of a file: what one can still read in one go."""

# -- names -------------------------------------------------------------------------------------------------


def crowded(paths: list[Path]) -> dict[str, list[Path]]:
    """File names that are in more than two folders, with the folders."""
    folders = defaultdict(list)
    for path in paths:
        if path.name != "__init__.py":
            folders[path.name].append(path.parent)
    return {name: found for name, found in folders.items() if len(found) > 2}


def test_no_file_name_is_in_more_than_two_folders() -> None:
    """A traceback, a tab of an editor and a search show the name without its folder."""
    assert not crowded(list(SOURCE.rglob("*.py")))
    assert list(crowded([Path(folder, "memory.py") for folder in "abc"])) == ["memory.py"]


def test_no_underscored_name_is_used_across_modules() -> None:
    assert not {name: used for name, tree in modules().items() if (used := foreign_underscores(tree))}


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("machine._memory.map(0)", {"machine._memory"}),
        ("from kvrm.memory.memory import _own", {"import _own"}),
        ("self._one + cls._two + super()._three + row._replace(a=1) + a.__class__", set()),
        ("def _here(): other._here", set()),
    ],
)
def test_what_counts_as_a_foreign_name(text: str, used: set[str]) -> None:
    assert foreign_underscores(ast.parse(text)) == used


# -- imports -----------------------------------------------------------------------------------------------


def graph(typing: bool) -> dict[str, set[str]]:
    """Which modules each module imports."""
    names = set(modules())
    return {name: imported(tree, names, typing) - {name} for name, tree in modules().items()}


def test_no_circle_of_imports() -> None:
    """A circle works only as long as the right module of it happens to be imported first."""
    assert circles(graph(typing=False)) == []


def test_circles_of_types_stay_in_their_package() -> None:
    """Modules of one package may name each other's types: a call its process, a process its calls.

    Between packages a circle of types says that neither can be understood, or replaced, without the other.
    """
    wide = [c for c in circles(graph(typing=True)) if len({".".join(n.split(".")[:2]) for n in c}) > 1]
    assert wide == []


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    texts = {
        "p.a": "if TYPE_CHECKING:\n    from p.b import B",
        "p.b": "try:\n    from p import a\nexcept ImportError:\n    import p.c",
        "p.c": "def f():\n    import p.a",
        "p": "from p import b, c",
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}
    found = {name: imported(tree, set(trees), typing=False) for name, tree in trees.items()}
    assert found == {"p.a": set(), "p.b": {"p.a", "p.c"}, "p.c": set(), "p": {"p.b", "p.c"}}
    assert imported(trees["p.a"], set(trees), typing=True) == {"p.b"}


# -- walls ---------------------------------------------------------------------------------------------------

ROOMS = tuple(
    f"kvrm.{name}." for name in ("backend.cpu", "backend.gpu", "engine", "lane", "linux", "machine", "memory")
)
"""Packages whose classes have those of another one, and do not derive from them, except from protocols."""


def walled(name: str, bases: set[str]) -> set[str]:
    """Those of the classes that a module in one room may not derive from, for they are in another one."""

    def room(dotted: str) -> str:
        return next((room for room in ROOMS if f"{dotted}.".startswith(room)), "")

    there = {base for base in bases if room(name) and room(base) not in ("", room(name))}
    return {base for base in there if base.rpartition(".")[2] not in protocols()}


def test_no_class_derives_from_one_across_a_wall() -> None:
    """It would share names that are private there, so that neither side could change without the other."""
    assert not {name: found for name, tree in modules().items() if (found := walled(name, inherited(tree)))}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("kvrm.backend.gpu.a", "from kvrm.machine.lanes import Lanes\nclass A(Lanes[int]): ...", True),
        ("kvrm.machine.a", "from kvrm.memory import memory as m\nclass A:\n    class B(m.Memory): ...", True),
        ("kvrm.backend.gpu.a", "from kvrm.memory.space import Space\nclass A(Space): ...", False),
        ("kvrm.machine.a", "from kvrm.machine.runner import Runner\nclass A(Runner): ...", False),
        ("kvrm.engine.a", "from kvrm.isa.context import Context\nclass A(Context): ...", False),
    ],
)
def test_what_counts_as_across_a_wall(name: str, text: str, found: bool) -> None:
    assert bool(walled(name, inherited(ast.parse(text)))) is found


EMITTERS = (
    "kvrm.staging",
    "kvrm.engine.interpreter",
    "kvrm.engine.translator",
    *(
        f"kvrm.backend.gpu.{name}"
        for name in (
            "access",
            "device_abi",
            "device_stage",
            "inline",
            "kernel",
            "region",
            "rounds",
            "warp",
        )
    ),
)
"""Packages and modules that emit LLVM code: the staged language, handlers, regions, and the loop of warps."""


def emits(tree: ast.Module) -> bool:
    """Whether a module imports LLVM's builder, anywhere."""
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    plain = (alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    return any(
        node.module == "llvmlite.ir" or (node.module == "llvmlite" and "ir" in {a.name for a in node.names})
        for node in froms
    ) or any(name.startswith("llvmlite.ir") for name in plain)


def test_llvm_is_emitted_where_code_is_staged_only() -> None:
    found = {name for name, tree in modules().items() if emits(tree)}
    assert not {name for name in found if not f"{name}.".startswith(tuple(f"{p}." for p in EMITTERS))}


def test_which_modules_emit() -> None:
    for text in ("from llvmlite import ir", "import llvmlite.ir as ir", "from llvmlite.ir import Value"):
        assert emits(ast.parse(f"def f():\n    {text}"))
    assert not emits(ast.parse("from llvmlite import binding"))


# -- mutations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [*mutations.MUTATIONS, *mutations_of_lanes.MUTATIONS])
def test_mutations_find_what_they_change(m: mutations.Mutation | mutations_of_lanes.Mutation) -> None:
    """They run rarely: one that has lost its line would be noticed long after the change that took it."""
    assert m.right in (mutations.PACKAGE / m.file).read_text()


# -- length ------------------------------------------------------------------------------------------------

STILL_LONG = {
    "src/kvrm/values/bits.py",
}
"""Files that are longer: take out what has been split; nothing is added."""


def test_files_are_short() -> None:
    paths = [*SOURCE.rglob("*.py"), *TESTS.rglob("*.py")]
    lines = {path.relative_to(SOURCE.parent).as_posix(): path.read_text().count("\n") for path in paths}
    assert {path for path, count in lines.items() if count > LONGEST} == STILL_LONG
