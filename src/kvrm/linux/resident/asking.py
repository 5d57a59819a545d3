"""Questions of staged calls about paths, which the host answers once for all lanes.

What a path means, and what is in the file, is the same for all lanes while they run staged calls: none of
these changes names or files. The first lane to name a path stops until the host has put the answer in the
table (`kvrm.linux.resident.known`), and does its call again.
"""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.resident.lane_view import Lane
from kvrm.linux.resident.layout import (
    ANSWER_WORDS,
    ANSWERS,
    ASKED,
    LEAVE,
    NAME_WORDS,
    QUESTION_WORDS,
    QUESTIONS,
    Answer,
    Fixed,
)
from kvrm.staging.host import add, address, apart, load, load_byte, local, store

SLASH = ord("/")


def answer(lane: Lane, number: int) -> int:
    """The address of an answer of the host (`Answer`)."""
    return lane.fixed(Fixed.FILES) + 8 * ANSWER_WORDS * number


def answer_to(lane: Lane, ask: int, directory: int, path: int) -> int:
    """The number of the answer to a question about a path; below 0 what the call returns instead."""
    question = local(QUESTION_WORDS)
    for i in range(QUESTION_WORDS):
        question[i] = 0
    question[0] = ask
    name = address(question) + 8
    length = 0
    while True:
        if length == 8 * NAME_WORDS or lane.read(path + length, 1, name + length):
            return LEAVE
        if load_byte(name + length) == 0:
            break
        length += 1
    if load_byte(name) != SLASH and directory != abi.AT_FDCWD:
        return LEAVE
    if (number := known(lane.fixed(Fixed.FILES), lane.fixed(Fixed.ASKED), address(question))) < 0:
        return number
    result = load(answer(lane, number) + 8 * Answer.RESULT)
    return result if result else number


@apart  # several system calls look files up: one copy for all
def known(table: int, asked: int, question: int) -> int:
    """The number of the answer to a question; else ASKED once it is asked, or LEAVE."""
    last = load(table + 8 * Answer.QUESTION)
    for number in range(1, last + 1):
        if are_same(question, table + 8 * (ANSWER_WORDS * number + Answer.QUESTION)):
            return number
    if last == ANSWERS - 1:
        return LEAVE
    place = add(asked, 1)
    if place < QUESTIONS:
        to = asked + 8 * (1 + QUESTION_WORDS * place)
        for i in range(QUESTION_WORDS):
            store(to + 8 * i, load(question + 8 * i))
    return ASKED


def are_same(question: int, other: int) -> int:
    """Whether two questions are the same."""
    for i in range(QUESTION_WORDS):
        if load(question + 8 * i) != load(other + 8 * i):
            return 0
    return 1
