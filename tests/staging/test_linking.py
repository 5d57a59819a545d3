"""Objects that are linked without LLVM are as those that LLVM links."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from kvrm.staging import native
from kvrm.staging.linking import Linked
from kvrm.staging.llvm import Linked as LinkedByLlvm
from kvrm.staging.llvm import compile_text

TEXT = """
@counter = global i64 5
@zeros = global [3 x i64] zeroinitializer
@table = constant [3 x ptr] [ptr @double, ptr @twenty, ptr getelementptr (i8, ptr @words, i64 16)]
@words = constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]

define i64 @double(i64 %x) {
  %y = shl i64 %x, 1
  ret i64 %y
}

define internal i64 @twenty(i64 %x) noinline {
  ret i64 20
}

define i64 @count(i64 %x) {
  %old = load i64, ptr @counter
  %new = add i64 %old, %x
  store i64 %new, ptr @counter
  %p = getelementptr i64, ptr @zeros, i64 %x
  %q = load i64, ptr %p
  %all = add i64 %new, %q
  ret i64 %all
}

define i64 @indirect(i64 %x) {
  %p = getelementptr ptr, ptr @table, i64 1
  %f = load volatile ptr, ptr %p
  %a = call i64 %f(i64 %x)
  %b = call i64 @twenty(i64 %x)
  %w = getelementptr ptr, ptr @table, i64 2
  %v = load volatile ptr, ptr %w
  %c = load i64, ptr %v
  %d = add i64 %a, %b
  %e = add i64 %d, %c
  ret i64 %e
}

define i64 @chosen(i64 %x) {
  switch i64 %x, label %other [
    i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e
  ]
a:
  %va = call i64 @double(i64 7)
  ret i64 %va
b:
  %vb = call i64 @count(i64 1)
  ret i64 %vb
c:
  ret i64 -3
d:
  %vd = load volatile i64, ptr @counter
  ret i64 %vd
e:
  %ve = call i64 @indirect(i64 0)
  ret i64 %ve
other:
  ret i64 99
}

define double @constants(double %x) {
  %y = fmul double %x, 0x3FF3C0CA428C59FB
  %z = fadd double %y, 0x40091EB851EB851F
  ret double %z
}
"""

pytestmark = pytest.mark.skipif(not native.host_is_x86(), reason="on other hosts LLVM links")


@pytest.fixture(scope="module")
def code() -> bytes:
    return compile_text(TEXT, "", quickly=False)


def called(linked: native.Code) -> list[float]:
    """What its functions give; those that count are called in the same order."""
    unary = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    real = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(linked.address("constants"))
    names = ("double", "count", "indirect", "chosen")
    found: dict[str, Callable[[int], int]] = {name: unary(linked.address(name)) for name in names}
    assert found["double"](21) == 42 and found["indirect"](0) == 20 + 20 + 33
    return [found[name](x) for name in names[:3] for x in (0, 1, 2)] + [
        *map(found["chosen"], range(-1, 6)),
        real(1.5),
    ]


def test_the_same_as_by_llvm(code: bytes) -> None:
    mine, other = Linked(code), LinkedByLlvm(code)
    assert called(mine) == called(other)
    for name in ("counter", "zeros", "table", "words"):
        assert mine.address(name) and other.address(name)
    assert ctypes.c_int64.from_address(mine.address("words") + 24).value == 44
    table = (ctypes.c_uint64 * 3).from_address(mine.address("table"))
    assert [table[0], table[2]] == [mine.address("double"), mine.address("words") + 16]


def test_each_has_data_of_its_own(code: bytes) -> None:
    one, two = Linked(code), Linked(code)
    ctypes.c_int64.from_address(one.address("counter")).value = 77
    assert ctypes.c_int64.from_address(two.address("counter")).value == 5


def test_names_that_are_not_there(code: bytes) -> None:
    linked = Linked(code)
    assert linked.address("absent") == linked.address("twenty") == 0, "twenty is internal"


def permissions(address: int) -> str:
    """What the host lets this process do there."""
    with open("/proc/self/maps") as file:
        for line in file:
            span, kinds, *_ = line.split()
            first, end = (int(part, 16) for part in span.split("-"))
            if first <= address < end:
                return kinds[:3]
    return ""


def test_code_cannot_be_written_and_data_cannot_run(code: bytes) -> None:
    linked = Linked(code)
    assert permissions(linked.address("double")) == permissions(linked.address("words")) == "r-x"
    assert permissions(linked.address("counter")) == permissions(linked.address("zeros")) == "rw-"


def test_a_symbol_outside_is_refused() -> None:
    text = "declare i64 @elsewhere()\ndefine i64 @f() {\n  %x = call i64 @elsewhere()\n  ret i64 %x\n}\n"
    with pytest.raises(LookupError, match="elsewhere"):
        Linked(compile_text(text, "", quickly=False))
