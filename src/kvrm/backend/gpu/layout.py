"""Where things are that system calls in the kernel and the host agree on."""

from __future__ import annotations

from enum import IntEnum, auto

ARGUMENTS = 6
RECORD = 8 * (ARGUMENTS + 2)
"""Bytes of a record of a lane's log: number, result, arguments."""
DESCRIPTORS = 16
"""Descriptors that are known here, counted from 0."""
OPEN_FILES = DESCRIPTORS + 1
"""What they can refer to, open files in Linux's sense, number 0 (none) included."""
STAT_BYTES = 128
RANDOM_MOST = 1024
"""32-bit words of the seeded generator that the kernel has."""
LINK = b"/proc/self/exe"
"""The one symbolic link that is known here: programs read it as they start."""
PATH_WORDS = 512


class Stream(IntEnum):
    """What an open file is."""

    OTHER = 0  # for the CPU
    NONE = auto()
    FILE = auto()  # which one is in the lane's words
    INPUT = auto()
    STDOUT = auto()  # those from here on can be written to, the two before it be read
    STDERR = auto()


class Ask(IntEnum):
    """What a lane asks about a path; a question is a word of this and flags << 32, and then the path."""

    OPEN = 1  # with these flags
    STATUS = auto()
    LINK_STATUS = auto()  # of a symbolic link itself
    INHERITED = auto()  # known from the beginning: a descriptor that lanes have, its number instead of a path


NAME_WORDS = 32
QUESTION_WORDS = 1 + NAME_WORDS


class Answer(IntEnum):
    """Words of what is known of a question, in the table that FILES points to.

    Number 0 of the table is no answer: instead of a question it has how many others there are.
    """

    RESULT = 0  # 0, what the call fails with, or NOT_HERE
    CONTENT = 1  # device address
    SIZE = 2  # bytes of it
    STATUS = 3  # `struct stat`
    QUESTION = 3 + STAT_BYTES // 8


ANSWER_WORDS = Answer.QUESTION + QUESTION_WORDS
ANSWERS = 64
"""How many there can be, number 0 included."""
QUESTIONS = 32
"""How many the buffer of ASKED has, after a word that counts them; those that are too many are lost."""


class Fixed(IntEnum):
    """Words of the block that `Param.PROCESS` points to, the same for all lanes; arrays follow."""

    PID = 0
    UID = auto()
    GID = auto()
    HEAP_START = auto()
    ZEROS = auto()  # address of the page of zeros
    OUTPUTS = auto()  # address of the lanes' buffers of standard output
    ERRORS = auto()  # of standard error
    OUTPUT_BYTES = auto()  # of one lane in each of them
    LOG = auto()  # address of the lanes' logs
    RECORDS = auto()  # how many fit into one
    LINK_BYTES = auto()  # of the target of LINK; 0: not known
    CWD_BYTES = auto()  # of the current directory's path, with the zero at its end
    PENDING = auto()  # signals
    FILES = auto()  # address of the table of answers
    ASKED = auto()  # address of the questions that the host is to answer
    BEYOND = auto()  # whether there are descriptors from DESCRIPTORS on
    LIMITED = auto()  # whether the CPU must look at what is mapped: limits, locks, shared files
    MAY_OPEN = auto()  # whether descriptors cannot run out before DESCRIPTORS are open


KINDS = max(Fixed) + 1
"""For each open file that lanes begin with, a `Stream`."""
FLAGS = KINDS + OPEN_FILES
"""Its status flags."""
STATS = FLAGS + OPEN_FILES
"""`struct stat` of INPUT, STDOUT and STDERR."""
LIMITS = STATS + 3 * STAT_BYTES // 8
"""`struct rlimit` of each resource."""
UTSNAME = LIMITS + 2 * 16
TARGET = UTSNAME + 49
"""Where LINK leads."""
CWD = TARGET + PATH_WORDS
NAME = CWD + PATH_WORDS
"""16 bytes: what prctl says."""
ACTIONS = NAME + 2
"""`struct sigaction` of signals 1 to 64."""
RANDOM = ACTIONS + 64 * 4
PROCESS_WORDS = RANDOM + RANDOM_MOST // 2
