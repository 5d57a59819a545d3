"""The decorator that makes an instruction of a function, and what it checks."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from kvrm.isa.encoding import Cube, Diagram, EncodingError, Field, subtract
from kvrm.values import bits


class Static(int):
    """Annotation of a field that chooses structure: a Python int on every engine, one handler per value."""


class Execution(IntEnum):
    """The seven execution classes: what kind of work an instruction is (docs/networks/index.md)."""

    ARITHMETIC = 0
    LOGICAL = 1
    LOAD_STORE = 2
    BRANCH = 3
    MULTIPLY_DIVIDE = 4
    EXTEND_SHIFT = 5
    SYSTEM = 6

    @property
    def label(self) -> str:
        """For people: `load/store`."""
        return self.name.lower().replace("_", "/")


class DefinitionError(Exception):
    """A mistake in a definition; the message begins with file:line."""


Operation = Callable[..., None]
Printer = Callable[["Decoded"], str]
Asm = str | Printer


@dataclass(frozen=True, slots=True)
class Alias:
    """Another assembly line for the words for which `when` holds (the manual's "preferred disassembly")."""

    asm: Asm
    when: Callable[[Decoded], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One instruction: the manual's name, encoding, assembly and operation."""

    key: str
    name: str
    diagram: Diagram
    asm: Asm
    operation: Operation
    source: str
    execution: Execution
    aliases: tuple[Alias, ...] = ()
    unallocated: tuple[Cube, ...] = ()
    unpredictable: Callable[[Decoded], bool] | None = None
    feature: str | None = None
    parameters: tuple[Field, ...] = ()
    statics: tuple[Field, ...] = ()
    bound: dict[str, Any] = field(default_factory=dict)

    def cubes(self) -> list[Cube]:
        """Disjoint cubes of exactly the allocated words."""
        return subtract(self.diagram.cube, self.unallocated)

    def variants(self) -> Iterator[tuple[int, ...]]:
        """Every combination of static field values that an allocated word has."""
        for values in itertools.product(*(range(1 << f.width) for f in self.statics)):
            if subtract(self.variant_cube(values), self.unallocated):
                yield values

    def variant_cube(self, statics: Sequence[int]) -> Cube:
        """The diagram with its static fields fixed."""
        cube = self.diagram.cube
        for f, v in zip(self.statics, statics, strict=True):
            cube &= Cube(((1 << f.width) - 1) << f.low, v << f.low)
        return cube

    def statics_of(self, word: int) -> tuple[int, ...]:
        """The static field values of `word`."""
        return tuple(f.of(word) for f in self.statics)

    def run(self, m: Any, fields: dict[str, Any]) -> None:
        """Run the operation on the machine `m` with the given parameter fields."""
        self.operation(m, **fields, **self.bound)


@dataclass(slots=True)
class Decoded:
    """A word with its definition; fields read as attributes: ``d.Rn``, ``d.imm12``."""

    word: int
    definition: Definition
    fields: dict[str, int]
    pc: int = 0

    def operands(self) -> dict[str, Any]:
        """The arguments of the word's operation: ints for static fields, known values for the others."""
        d = self.definition
        static = {f.name for f in d.statics}
        return {
            f.name: self.fields[f.name] if f.name in static else bits(f.width, self.fields[f.name])
            for f in d.parameters
        }

    def __getattr__(self, name: str) -> int:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(name) from None


definitions: list[Definition] = []
_keys: dict[str, Definition] = {}


def _package_parent() -> str:
    import kvrm

    return os.path.dirname(os.path.dirname(kvrm.__file__))


def insn(
    name: str,
    diagram: str,
    asm: Asm,
    *,
    unallocated: str = "",
    unpredictable: Callable[[Decoded], bool] | None = None,
    aliases: Sequence[Alias] = (),
    feature: str | None = None,
    execution: Execution | None = None,
    key: str = "",
    **bound: Any,
) -> Callable[[Operation], Operation]:
    """Define an instruction.

    `name` is the manual's, `diagram` its encoding, `asm` a template of `{field:printer}` (see
    `kvrm.isa.assembly`) or a function. `unallocated` lists conditions separated by ``|`` whose words are not
    allocated; `unpredictable` tells the allocated words for which the manual leaves the result open
    (CONSTRAINED UNPREDICTABLE). `feature` names what a machine needs to have it (`kvrm.isa.features`), joined
    by spaces if it is several. `execution` is its class, by default what the operation's file has as
    EXECUTION. `bound` keyword arguments are passed to the operation as they are: families
    of instructions share one operation that way. Mistakes raise DefinitionError naming file and line.
    """

    def register(operation: Operation) -> Operation:
        code = operation.__code__
        source = f"{os.path.relpath(code.co_filename, _package_parent())}:{code.co_firstlineno}"
        try:
            d = Diagram.parse(diagram)
            holes = tuple(d.condition(c) for c in unallocated.split("|") if c.strip())
            parameters, statics = _parameters(operation, d, bound)
            full = key or operation.__name__
            if full in _keys:
                raise DefinitionError(f"the key {full!r} is used by {_keys[full].source} too")
            work = operation.__globals__.get("EXECUTION") if execution is None else execution
            if not isinstance(work, Execution):
                raise DefinitionError("neither the definition nor its file says which execution class it has")
        except (EncodingError, DefinitionError) as error:
            raise DefinitionError(f"{source}: {name}: {error}") from None
        definition = Definition(
            full,
            name,
            d,
            asm,
            operation,
            source,
            work,
            tuple(aliases),
            holes,
            unpredictable,
            feature,
            parameters,
            statics,
            bound,
        )
        _keys[full] = definition
        definitions.append(definition)
        return operation

    return register


def _parameters(
    operation: Operation, diagram: Diagram, bound: dict[str, Any]
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """The fields that the operation takes, and those of them that are static."""
    taken, statics = [], []
    names = list(inspect.signature(operation).parameters.values())
    for p in names[1:]:
        if p.name in bound:
            continue
        f = diagram.field(p.name)
        taken.append(f)
        if p.annotation in (Static, "Static"):
            statics.append(f)
    missing = [k for k in bound if k not in {p.name for p in names[1:]}]
    if missing:
        raise DefinitionError(f"{missing[0]!r} is no parameter of {operation.__name__}")
    return tuple(taken), tuple(statics)


def definition_of(key: str) -> Definition:
    return _keys[key]


def overlaps() -> list[str]:
    """Every pair of definitions that claim one word, with such a word; exact over all 2^32 words."""
    found = set()
    buckets: dict[int, list[Definition]] = {}
    for d in definitions:
        for key in bucket_keys(d.diagram.cube):
            for other in buckets.get(key, ()):
                if (word := _shared_word(d, other)) is not None:
                    found.add(f"{d.source}: {d.name} overlaps {other.name} ({other.source}) at {word:#010x}")
            buckets.setdefault(key, []).append(d)
    return sorted(found)


def _shared_word(a: Definition, b: Definition) -> int | None:
    if not a.diagram.cube.meets(b.diagram.cube):
        return None
    rest = subtract(a.diagram.cube & b.diagram.cube, (*a.unallocated, *b.unallocated))
    return rest[0].value if rest else None


BUCKET_SHIFT = 21


def bucket_keys(cube: Cube) -> Iterator[int]:
    """The values of bits 31:21 that words of the cube have."""
    mask, value = cube.mask >> BUCKET_SHIFT, cube.value >> BUCKET_SHIFT
    free = ~mask & 0x7FF
    sub = free
    while True:
        yield value | sub
        if not sub:
            return
        sub = (sub - 1) & free
