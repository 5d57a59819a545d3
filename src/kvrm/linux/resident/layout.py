"""Where things are that staged system calls and the host agree on: words of a lane, and of all lanes."""

from __future__ import annotations

from enum import IntEnum, auto

from kvrm.lane.stops import Reason

NO_RESULT = max(Reason) - (1 << 63)
"""A call gives a result, or the `Reason` why there is none less 2^63, which is this at most."""
LEAVE, ASKED, EXIT = (reason - (1 << 63) for reason in (Reason.SVC, Reason.NO_ANSWER, Reason.EXIT))
"""Python must do the call; it is to be done again when the host has answered; the lane has ended."""
DONE = 0
"""What `resident` returns if it has put the result into x0; else one of those."""
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
    RANDOM = auto()  # /dev/urandom and its kin, opened by the lane
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
    KIND = 3  # a `Stream`: FILE or RANDOM
    GOES_ON = 4  # not 0: the file has more than is known of it
    STATUS = 5  # `struct stat`
    QUESTION = 5 + STAT_BYTES // 8


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
    OWN_ACTIONS = auto()  # address of the lanes' own actions on signals
    AREAS = auto()  # address of the lanes' areas
    MOST_AREAS = auto()  # that a lane can have
    LINK_BYTES = auto()  # of the target of LINK; 0: not known
    CWD_BYTES = auto()  # of the current directory's path, with the zero at its end; below 0 why it has none
    PENDING = auto()  # signals
    FILES = auto()  # address of the table of answers
    ASKED = auto()  # address of the questions that the host is to answer
    BEYOND = auto()  # whether there are descriptors from DESCRIPTORS on
    LIMITED = auto()  # whether the CPU must look at what is mapped: limits, locks, shared files, segments
    DESCRIPTOR_LIMIT = auto()  # RLIMIT_NOFILE


KINDS = max(Fixed) + 1
"""For each open file that lanes begin with, a `Stream`."""
FLAGS = KINDS + OPEN_FILES
"""Its status flags."""
STATS = FLAGS + OPEN_FILES
"""`struct stat` of INPUT, STDOUT and STDERR."""
LIMITS = STATS + 3 * STAT_BYTES // 8
"""`struct rlimit` of each resource."""
RESOURCES = 16
UTSNAME = LIMITS + 2 * RESOURCES
TARGET = UTSNAME + 49
"""Where LINK leads."""
CWD = TARGET + PATH_WORDS
NAME = CWD + PATH_WORDS
"""16 bytes: what prctl says."""
ACTIONS = NAME + 2
"""`struct sigaction` of signals 1 to 64."""
ACTION_WORDS = 4
ACTION_BYTES = 8 * ACTION_WORDS
ACTIONS_BYTES = 64 * ACTION_BYTES
RANDOM = ACTIONS + ACTIONS_BYTES // 8
ADVICE = RANDOM + RANDOM_MOST // 2
"""For advice below ADVICES the marks of mappings that it adds and << 32 removes; or OTHER_ADVICE."""
ADVICES = 32
OTHER_ADVICE = -1
PROCESS_WORDS = ADVICE + ADVICES


class Word(IntEnum):
    """Words of a lane that only its system calls use."""

    DESCRIPTOR = 0  # for each descriptor the number of its open file, and << 32 whether FD_CLOEXEC
    OPENED = DESCRIPTORS  # for each open file 0, or an answer's number and << 32 status flags
    OFFSET = OPENED + OPEN_FILES  # for each open file
    INPUT = OFFSET + OPEN_FILES  # address of what standard input has next
    INPUT_END = auto()
    STDOUT = auto()  # bytes in the buffer
    STDERR = auto()
    RANDOM = auto()  # 32-bit words taken from the generator
    SKIPPED = auto()  # nanoseconds slept
    BLOCKED = auto()  # signals
    HEAP_END = auto()
    LOWEST = auto()  # where mappings begin that have no large hole between them
    HOLES = auto()  # bytes of the holes above it: an upper bound
    FILE_ROOM = auto()  # bytes of files that it may map: a lower bound
    ROBUST_LIST = auto()  # as set_robust_list was given it
    CLEAR_TID = auto()  # as set_tid_address was
    OWN_ACTIONS = auto()  # signals whose actions the lane has set: a mask
    AREAS = auto()  # how many the lane has
    HAS_CODE = auto()  # not 0: the lane has made memory executable, which is only known on the CPU


LANE_WORDS = max(Word) + 1


class Area(IntEnum):
    """Words of an area: pages that are mapped otherwise than lanes begin with them.

    A lane's areas do not overlap. What `WHAT` does not say is as lanes begin with it.
    """

    START = 0
    END = auto()
    WHAT = auto()  # bits of `Prot` and What, << MARKS those of `Mark` that are added, << UNMARKS removed
    FILE = auto()  # of what is mapped the file, as in the lane's word of an open file; 0: memory
    BASE = auto()  # where it was mapped
    LENGTH = auto()  # bytes of pages
    OFFSET = auto()  # in the file


AREA_WORDS = max(Area) + 1
AREA_BYTES = 8 * AREA_WORDS
MARKS, UNMARKS = 16, 32


class What(IntEnum):
    """What has become of an area besides its marks."""

    PROT = 8  # the bits of `Prot` hold
    HOLE = 16
    NEW = 32  # it was mapped by the lane
    HEAP = 64  # by brk


SOME_MAPPED, SOME_HOLE, SOME_OTHER, SOME_CODE, SOME_FIXED, SOME_FILE, SOME_BEYOND = (1 << i for i in range(7))
"""Bits of what pages are: mapped, not mapped, neither zeros nor a file's before they are written, code, not
writable, a file's that was mapped here, past the end of such a file."""
MAP, KEEP = 4, 8
"""Bits of what pages become, besides those of `Prot`: mapped; what was written to them stays."""
FILE = 4
"""Marks a page as a file's, in the address of what it shows; alone, as past the file's end."""
