"""Questions of staged calls about paths, which the host answers once for all lanes.

What a path means, and what is in the file, is the same for all lanes while they run staged calls: none of
these changes names or files. The first lane to name a path stops until the host has put the answer in the
table (`kvrm.linux.resident.known`), and does its call again.
"""

from __future__ import annotations

from llvmlite import ir

from kvrm.linux import abi
from kvrm.linux.resident.call import NOT_HERE, UNANSWERED, Call, const
from kvrm.linux.resident.layout import (
    ANSWER_WORDS,
    ANSWERS,
    NAME_WORDS,
    QUESTION_WORDS,
    QUESTIONS,
    Answer,
    Fixed,
)
from kvrm.staging.emitter import I8, I64, PTR, Emitter


def answer_to(c: Call, ask: ir.Value, directory: ir.Value, path: ir.Value) -> ir.Value:
    """The number of the answer to a question about a path; the call fails if that says so."""
    e, question = c.e, c.local(QUESTION_WORDS)
    with e.repeat(QUESTION_WORDS) as i:
        e.store(const(0), e.at(question, e.shl(i, const(3))))
    e.store(ask, question)
    name = e.at(question, 8)
    c.read_string(path, name, 8 * NAME_WORDS)
    absolute = e.icmp_unsigned("==", e.load(name, typ=I8), ir.Constant(I8, ord("/")))
    c.refuse_unless(e.or_(absolute, c.equal(directory, abi.AT_FDCWD)))
    table, asked = (c.lane.pointer(c.fixed(word)) for word in (Fixed.FILES, Fixed.ASKED))
    number = e.call(_known(c.fn.module), [table, asked, question, c.local(2)])
    c.ret_if(e.not_(c.below(number, ANSWERS)), number)
    result = e.load_at(c.answer(number), 8 * Answer.RESULT, I64)
    c.ret_if(e.not_(c.equal(result, 0)), result)
    return number


def _known(module: ir.Module) -> ir.Function:
    """`known(table, asked, question, scratch)`: the number of the answer to a question.

    Else UNANSWERED once it is asked, or NOT_HERE. Two words of `scratch` are overwritten.
    """
    if "known" in module.globals:
        return module.globals["known"]
    fn = ir.Function(module, ir.FunctionType(I64, [PTR] * 4), "known")
    fn.linkage = "internal"
    fn.attributes.add("noinline")  # several system calls look files up: one copy for all
    e = Emitter(fn.append_basic_block("entry"))
    table, asked, question, found = fn.args
    difference = e.at(found, 8)
    e.store(const(0), found)
    last = e.load_at(table, 8 * Answer.QUESTION, I64)
    with e.repeat(last) as i:
        number = e.add(i, const(1))
        other = e.at(table, e.add(e.mul(number, const(8 * ANSWER_WORDS)), const(8 * Answer.QUESTION)))
        e.store(const(0), difference)
        with e.repeat(QUESTION_WORDS) as k:
            at = e.shl(k, const(3))
            differs = e.xor(e.load_at(question, at, I64), e.load_at(other, at, I64))
            e.store(e.or_(e.load(difference, typ=I64), differs), difference)
        with e.if_then(e.icmp_unsigned("==", e.load(difference, typ=I64), const(0))):
            e.store(number, found)
    with e.if_then(e.icmp_unsigned("!=", e.load(found, typ=I64), const(0))):
        e.ret(e.load(found, typ=I64))
    with e.if_then(e.icmp_unsigned("==", last, const(ANSWERS - 1))):
        e.ret(const(NOT_HERE))
    place = e.atomic_rmw("add", asked, const(1), "monotonic")
    with e.if_then(e.icmp_unsigned("<", place, const(QUESTIONS))):
        to = e.at(asked, e.add(e.mul(place, const(8 * QUESTION_WORDS)), const(8)))
        with e.repeat(QUESTION_WORDS) as k:
            at = e.shl(k, const(3))
            e.store(e.load_at(question, at, I64), e.at(to, at))
    e.ret(const(UNANSWERED))
    return fn
