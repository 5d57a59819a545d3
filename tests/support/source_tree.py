"""The modules of the package as syntax trees, and what each imports, at import time or for its types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def module_name(path: Path) -> str:
    """The dotted name of a source file below `SOURCE`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {module_name(path): ast.parse(path.read_text(), str(path)) for path in paths}


def imported(tree: ast.Module, names: set[str], typing: bool) -> set[str]:
    """Those of the modules `names` that a module imports at import time; with `typing`, for types too."""
    found = set()
    for node in _executed(tree.body, typing):
        if isinstance(node, ast.ImportFrom):
            # Python imports a package before its modules in any case: only the module that is named counts.
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & names or {str(node.module)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & names


def _executed(body: list[ast.stmt], typing: bool) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, without those of functions."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        only_types = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        for field in ("body", "orelse", "finalbody"):
            if field != "body" or typing or not only_types:
                yield from _executed(getattr(statement, field, []), typing)
        for handler in getattr(statement, "handlers", []):
            yield from _executed(handler.body, typing)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other, each sorted (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        open_.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            at = open_.index(name)
            circle = sorted(open_[at:])
            del open_[at:]
            if len(circle) > 1 or name in graph[name]:
                found.append(circle)

    for name in graph:
        if name not in order:
            visit(name)
    return found


def foreign_underscores(tree: ast.Module) -> set[str]:
    """What a module uses under an underscored name that it does not define: attributes of others, imports.

    What a class has from its own bases (`self`, `cls`, `super()`) is its own. `_replace` of a named tuple and
    `_value_` of an enum's member are Python's.
    """
    own = {"_replace", "_value_"}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            own.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            own.add(node.value)  # a name in `__slots__`
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            used |= {ast.unparse(node)} if node.attr not in own else set()
        elif isinstance(node, ast.ImportFrom):
            used |= {f"import {alias.name}" for alias in node.names if _is_private(alias.name)}
    return used


def inherited(tree: ast.Module) -> set[str]:
    """The classes of other modules that a module's classes derive from, by their dotted names."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    origins = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" for node in froms for alias in node.names
    }
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    bases = (ast.unparse(base).split("[")[0].partition(".") for node in classes for base in node.bases)
    return {origins[first] + dot + rest for first, dot, rest in bases if first in origins}


@cache
def protocols() -> set[str]:
    """The names of all protocols."""
    classes = (
        node for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    return {node.name for node in classes if "Protocol" in map(ast.unparse, node.bases)}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(node: ast.expr) -> bool:
    return ast.unparse(node) in ("self", "cls", "super()")
