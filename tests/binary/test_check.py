"""The execution check: right functions pass, and functions that are wrong in one way each do not."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

import kvrm
from kvrm.binary.arena import AREA, BASE, ONE, OTHER, SIZE, Arena
from kvrm.binary.cases import CASES, COMPARE, cases
from kvrm.binary.check import Checker
from kvrm.binary.labels import LABELS
from kvrm.binary.models import MODELS, Returns
from kvrm.binary.naming import first_of
from kvrm.binary.program import Program

CODE = {
    "strlen": "e10300aa22144038e2ffff35200000cb000400d1c0035fd6",
    "memset": "e30300aa820000b461140038420400d1fdffff17c0035fd6",
    "memcpy": "e30300aaa20000b42414403864140038420400d1fcffff17c0035fd6",
    "strcmp": "02144038231440385f00036b4100005482ffff354000034bc0035fd6",
    "strchr": "211c0012020040395f00016ba00000546200003400040091fbffff17000080d2c0035fd6",
    "abs": "1f00007100a4805ac0035fd6",
}
"""One byte at a time."""
WRONG = {
    "off by one": ("strlen", "e10300aa22144038e2ffff35200000cbc0035fd6", "the result is"),
    "reads on": ("strlen", "e10300aa220040f922144038c2ffff35200000cb000400d1c0035fd6", "a fault at"),
    "loses x19": ("strlen", "e10300aaf30300aa22144038e2ffff35200000cb000400d1c0035fd6", "x19 is not"),
    "loses v9": ("strlen", "e10300aa09e4006f22144038e2ffff35200000cb000400d1c0035fd6", "v9 is not"),
    "loses sp": ("strlen", "e10300aa22144038e2ffff35200000cb000400d1ff4300d1c0035fd6", "sp is not"),
    "writes its caller's stack": (
        "strlen",
        "e10300aae00700f922144038e2ffff35200000cb000400d1c0035fd6",
        "caller's stack",
    ),
    "writes beside": (
        "strlen",
        "e10300aa22144038e2ffff3503000010630000f9200000cb000400d1c0035fd6",
        "a fault at 0x200c",
    ),
    "calls the system": (
        "strlen",
        "e10300aa22144038e2ffff35200000cb000400d1010000d4c0035fd6",
        "it does not return (syscall",
    ),
    "never ends": ("strlen", "00000014", "it does not return (budget"),
    "right below 2048": (
        "strlen",
        "e10300aa22144038e2ffff35200000cb000400d11f0c40f100284092c0035fd6",
        "the result is",
    ),
    "sets one byte for none": (
        "memset",
        "e30300aa61140038420400f1c8ffff54c0035fd6",
        "",
    ),
    "copies at most 4095": (
        "memcpy",
        "e30300aa422c4092a20000b42414403864140038420400d1fcffff17c0035fd6",
        "the byte at",
    ),
    "compares signed bytes": (
        "strcmp",
        "0214c0382314c0385f00036b4100005482ffff354000034bc0035fd6",
        "the result is",
    ),
    "takes the whole of c": (
        "strchr",
        "020040395f00016ba00000546200003400040091fbffff17000080d2c0035fd6",
        "the result is 0x0",
    ),
    "does not find zero": (
        "strchr",
        "211c001202004039a20000345f00016b8000005400040091fbffff17000080d2c0035fd6",
        "the result is 0x0",
    ),
    "takes all 64 bits": ("abs", "1f0000f100a480dac0035fd6", "the result is"),
    "takes a limit": (
        "strlen",  # it is strnlen
        "e20300aac10000b4430040398300003442040091210400d1fbffff17400000cbc0035fd6",
        "the result is",
    ),
    "is strcasecmp of capital letters": (
        "strcmp",
        "0214403823144038448401519f6800714200005442800051648401519f68007142000054638000515f00036b4100005482feff354000034bc0035fd6",
        "the result is 0x0",
    ),
    "forwards only": ("memmove", CODE["memcpy"], "the byte at"),
}
OWN_STACK = "e10300aae00f1ff822144038e2ffff35e00741f8200000cb000400d1c0035fd6"


def checker(code: str) -> Checker:
    machine = kvrm.Machine(engine="interpreter")
    machine.write_memory(0x2000, bytes.fromhex(code))
    return Checker(machine)


@pytest.mark.parametrize("name", CODE)
def test_right_functions_pass(name: str) -> None:
    checking = checker(CODE[name])
    verdict = checking.check(0x2000, name)
    assert verdict.equivalent and str(verdict) == "tested equivalent"
    assert checking.check(0x2000, name, seed=1).equivalent
    assert checking.checks == 2 and checking.retired > 2 * CASES


@pytest.mark.parametrize("what", WRONG)
def test_wrong_functions_do_not(what: str) -> None:
    name, code, reason = WRONG[what]
    verdict = checker(code).check(0x2000, name)
    assert not verdict.equivalent
    assert verdict.reason.startswith(f"{name}(") and reason in verdict.reason, verdict.reason
    assert str(verdict).startswith("different: ")


def test_a_function_may_use_its_own_stack() -> None:
    assert checker(OWN_STACK).check(0x2000, "strlen").equivalent


def test_no_function_passes_as_another() -> None:
    """But for what one may do that the other must: a copy that is good for memmove is good for memcpy."""
    machine = kvrm.Machine(engine="interpreter")
    places = {name: 0x2000 + 0x100 * i for i, name in enumerate(CODE)}
    for name, address in places.items():
        machine.write_memory(address, bytes.fromhex(CODE[name]))
    checking = Checker(machine)
    for name, address in places.items():
        passed = {other for other in LABELS if checking.check(address, other).equivalent}
        assert passed == {name}
    found = first_of(checking, places["strlen"], ["strcmp", "strlen", "strchr"])
    assert found is not None and found.name == "strlen"
    found = first_of(checking, places["strlen"], ["strcmp", "strchr"])
    assert found is not None and found.name == "strcmp" and not found.equivalent
    assert first_of(checking, places["strlen"], []) is None


def test_the_machine_that_is_checked_is_not_changed() -> None:
    machine = kvrm.Machine(engine="interpreter")
    machine.write_memory(0x2000, bytes.fromhex(CODE["memset"]))
    before = machine.state.save()
    Checker(machine).check(0x2000, "memset")
    assert machine.state.save() == before and machine.retired == 0
    with pytest.raises(kvrm.UsageError):
        machine.memory[ONE : ONE + 1]


def test_functions_of_a_program(pattern_guest: Path) -> None:
    """A program's functions are tested after its first instructions, in a copy of its memory."""
    checking = Checker(pattern_guest)
    symbols = {s.names[0]: a for a, s in Program.of(pattern_guest).symbols.items()}
    for name in ("strlen", "memcpy", "memset", "memcmp", "strchr"):
        assert checking.check(symbols[name], name).equivalent
    assert not checking.check(symbols["words"], "strlen").equivalent


# -- models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LABELS)
def test_cases_are_edges(name: str) -> None:
    given = list(cases(name))
    assert len(given) == CASES and len({bytes(c.memory) for c in given}) == CASES
    assert [c.arguments for c in given] == [c.arguments for c in cases(name)]
    model, _ = MODELS[name]
    for case in given:
        arena = Arena(bytes(case.memory))
        model(arena, *case.arguments)  # IndexError if a model touched anything outside


@pytest.mark.parametrize("name", ["strlen", "memcpy", "strcmp", "memset"])
def test_something_lies_at_the_end_of_an_area(name: str) -> None:
    ends = (ONE + AREA, OTHER + AREA)
    touching = 0
    for case in cases(name):
        size = case.arguments[2] if name in ("memcpy", "memset") else 0
        address = case.arguments[0]
        assert isinstance(address, int) and isinstance(size, int)
        length = size or len(Arena(bytes(case.memory)).string(address, AREA)) + 1
        touching += address + length in ends
    assert touching > CASES // 10


@pytest.mark.parametrize("name", LABELS)
def test_models_agree_with_the_hosts_library(name: str) -> None:
    """An oracle of another make: the C library that Python runs on."""
    library = ctypes.CDLL(None)
    if not hasattr(library, name):
        pytest.skip(f"the host's C library has no {name}")
    model, returns = MODELS[name]
    for case in cases(name):
        arena = Arena(bytes(case.memory))
        wanted = model(arena, *case.arguments)
        got, memory = on_host(getattr(library, name), case.arguments, bytes(case.memory), returns)
        if name == "strtol" and case.arguments[1]:
            at = int(case.arguments[1]) - BASE
            memory[at : at + 8] = arena.data[at : at + 8]  # a pointer: of the host
        assert memory == arena.data
        if returns is Returns.WORD:
            assert wanted is not None and got == wanted & (1 << 64) - 1
        elif returns is Returns.INT:
            assert wanted is not None and got & 0xFFFFFFFF == wanted & 0xFFFFFFFF
        elif returns is Returns.SIGN:
            assert (got > 0) - (got < 0) == wanted


def on_host(
    function: ctypes._NamedFuncPointer, arguments: tuple[int | str, ...], memory: bytes, returns: Returns
) -> tuple[int, bytearray]:
    """Result and memory, with the host's addresses as the guest's."""
    buffer = ctypes.create_string_buffer(memory, SIZE)
    host = ctypes.addressof(buffer)

    def to_host(argument: int | str) -> object:
        if argument == COMPARE:
            return COMPARISON
        assert isinstance(argument, int)
        inside = BASE <= argument <= BASE + SIZE
        return ctypes.c_uint64(argument - BASE + host if inside else argument)

    function.restype = ctypes.c_uint64 if returns is Returns.WORD else ctypes.c_int
    got = function(*map(to_host, arguments))
    if returns is Returns.WORD and host <= got <= host + SIZE:
        got += BASE - host
    return got, bytearray(buffer.raw)


def _compared(one: int, other: int) -> int:
    a, b = (ctypes.c_int32.from_address(address).value for address in (one, other))
    return (a > b) - (a < b)


COMPARISON = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(_compared)
