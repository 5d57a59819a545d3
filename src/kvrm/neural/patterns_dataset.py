"""The data set: functions of static libraries with their labels, and what is held out of training.

One C library, one compiler or one set of flags at a time is left out, with a fifth of the other packages.
Variants are compiled from the sources of a C library, or of something like one, with a compiler and flags
that are known. When a C library is left out, training sees the variants of the others, and no test
does. When a compiler or flags are, the test is the variants made with them, and training sees those that are
not; how the C libraries were compiled is unknown, so they are in neither. What differs only in what is
masked is there once for each C library, for its variants, and for all other files together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm.array_files import read_arrays
from kvrm.binary.archives import Compiled, functions_in
from kvrm.binary.encoding import Encoded, encode
from kvrm.binary.known import signatures_of
from kvrm.binary.labels import NONE, label_of
from kvrm.errors import UsageError
from kvrm.isa.execution import Words

NAME = "patterns"
ARRAYS = ("words", "starts", "labels", "origins", "builds")
MOST = 4096
"""Instructions of a function that are kept."""
VARIANTS = "{} variants"
"""What the variants of a C library are called among the files."""
HELD_OUT = 5
"""One in this many files that hold no C library is for tests."""
VALIDATION = 10
"""One in this many signatures is kept from training that leaves nothing out, to choose among seeds."""
MOST_BUILDS = 64

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Variant:
    """More functions of a C library, and what they were compiled with."""

    libc: str
    compiler: str
    flags: str
    path: Path

    @property
    def build(self) -> str:
        """Compiler and flags."""
        return f"{self.compiler}:{self.flags}"


@dataclass(frozen=True, slots=True)
class Data:
    """Functions: words of all, one after the other; labels (uint8), file numbers (uint16), and names.

    `libcs` are the C libraries among `files`; a function of another file is always NONE. `builds` (uint64)
    has a bit for each of `compiled`, "COMPILER:FLAGS", that gave a variant; other functions have none.
    """

    words: Words
    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.uint8]
    origins: npt.NDArray[np.uint16]
    builds: npt.NDArray[np.uint64]
    names: tuple[str, ...]
    files: tuple[str, ...]
    libcs: tuple[str, ...]
    compiled: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def function(self, number: int) -> Words:
        return self.words[self.starts[number] : self.starts[number + 1]]

    def encoded(self, chosen: npt.NDArray[np.int64]) -> Encoded:
        """Some functions as policies see them."""
        return encode([self.function(int(i)) for i in chosen])

    @property
    def splits(self) -> tuple[str, ...]:
        """What can be left out: each C library, compiler and set of flags."""
        made = [build.partition(":") for build in self.compiled]
        return tuple(dict.fromkeys([*self.libcs, *(c for c, _, _ in made), *(f for _, _, f in made)]))

    def held_out(self, left_out: str) -> Flags:
        """Which functions are the test when that is left out: its own, and those of some other files."""
        return self._tests() | self._own(left_out)

    def training(self, left_out: str | None) -> Flags:
        """Which functions training may see when that is left out; all if nothing is.

        What another compiler or other flags make as well is in training and test; see `evaluation.Fold.new`.
        """
        if left_out is None:
            return np.ones(len(self), np.bool_)
        if left_out in self.libcs:
            return ~self.held_out(left_out) & ~self._of({VARIANTS.format(left_out)})
        elsewhere: Flags = (self.builds & ~self._bits(left_out)) != 0
        return ~self._tests() & ~self._of(set(self.libcs)) & (~self._own(left_out) | elsewhere)

    def _tests(self) -> Flags:
        others = {
            file for file in self.files if file not in self.libcs and not file.endswith(VARIANTS.format(""))
        }
        return self._of({file for file in others if _is_for_tests(file)})

    def _own(self, left_out: str) -> Flags:
        if left_out in self.libcs:
            return self._of({left_out})
        if left_out not in self.splits:
            raise UsageError(f"nothing called {left_out!r} in the data; there are {', '.join(self.splits)}")
        mine: Flags = (self.builds & self._bits(left_out)) != 0
        return mine

    def _bits(self, left_out: str) -> np.uint64:
        """The bits of the builds by a compiler or with flags."""
        of = [left_out in build.split(":") for build in self.compiled]
        return np.uint64(sum(1 << number for number, mine in enumerate(of) if mine))

    def _of(self, files: set[str]) -> Flags:
        return np.array([file in files for file in self.files])[self.origins]


def _is_for_tests(file: str) -> bool:
    return hashlib.sha256(file.encode()).digest()[0] % HELD_OUT == 0


Paths = Sequence[Path]


def collect(libcs: Mapping[str, Paths], variants: Sequence[Variant], others: Paths) -> Data:
    """Read all files, and drop duplicates. Raises UsageError."""
    compiled = tuple(dict.fromkeys(variant.build for variant in variants))
    if len(compiled) > MOST_BUILDS:
        raise UsageError(f"variants of {len(compiled)} compilers and flags; at most {MOST_BUILDS}")
    bits = [1 << compiled.index(variant.build) for variant in variants]
    sources = [(libc, path, 0) for libc, paths in libcs.items() for path in paths]
    sources += [(VARIANTS.format(v.libc), v.path, bit) for v, bit in zip(variants, bits, strict=True)]
    labelled = {file for file, _, _ in sources}
    sources += [(path.name.partition("_")[0], path, 0) for path in others]
    found = [(file, f, bit) for file, path, bit in sources for f in functions_in(path)]
    words = [function.words[:MOST] for _, function, _ in found]
    builds = _distinct(found, signatures_of(encode(words)), labelled)
    keep = list(builds)
    files = tuple(dict.fromkeys(file for file, _, _ in sources))
    kept = [found[i] for i in keep]
    labels = [label_of(f.names) if file in labelled else NONE for file, f, _ in kept]
    lengths = [len(words[i]) for i in keep]
    return Data(
        words=np.concatenate([np.zeros(0, np.uint32), *(words[i] for i in keep)]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels=np.array(labels, np.uint8),
        origins=np.array([files.index(file) for file, _, _ in kept], np.uint16),
        builds=np.array(list(builds.values()), np.uint64),
        names=tuple(" ".join(f.names) for _, f, _ in kept),
        files=files,
        libcs=tuple(libcs),
        compiled=compiled,
    )


def _distinct(
    found: Sequence[tuple[str, Compiled, int]], hashes: list[bytes], labelled: set[str]
) -> dict[int, int]:
    """Numbers of the functions that stay, with the bits of all that are the same.

    Functions of other files that are called like a known one go: they need not be one. So do those
    that are the same as a known one.
    """
    labels = [label_of(function.names) for _, function, _ in found]
    known = {
        h
        for h, number, (file, _, _) in zip(hashes, labels, found, strict=True)
        if file in labelled and number != NONE
    }
    first: dict[tuple[str, bytes, int], int] = {}
    builds: dict[int, int] = {}
    for i, ((file, _, bit), h, number) in enumerate(zip(found, hashes, labels, strict=True)):
        if file not in labelled and (number != NONE or h in known):
            continue
        stays = first.setdefault((file if file in labelled else "", h, number), i)
        builds[stays] = builds.get(stays, 0) | bit
    return builds


def in_validation(signatures: Sequence[bytes]) -> Flags:
    """Which functions are kept from training that leaves nothing out: the same ones together."""
    return np.array([int.from_bytes(s, "little") % VALIDATION == 0 for s in signatures], np.bool_)


def save(data: Data, directory: Path) -> dict[str, object]:
    """Write the data and what it is; returns the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(directory / f"{NAME}.npz", **{name: getattr(data, name) for name in ARRAYS})
    told = manifest(data)
    texts = {"names": data.names, "libcs": data.libcs, "compiled": data.compiled}
    (directory / f"{NAME}-names.json").write_text(json.dumps(texts) + "\n")
    (directory / f"{NAME}.json").write_text(json.dumps(told, indent=1) + "\n")
    return told


def load(directory: Path) -> Data:
    """What `save` wrote. Raises UsageError, also where the data is not what its manifest says."""
    try:
        told = json.loads((directory / f"{NAME}.json").read_text())
        texts = json.loads((directory / f"{NAME}-names.json").read_text())
        names, libcs, compiled = (tuple(texts[key]) for key in ("names", "libcs", "compiled"))
        files = tuple(told["files"])
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror} (`kvrm data patterns` makes it)") from None
    except (ValueError, KeyError) as error:
        raise UsageError(f"{directory}: not data of `kvrm data patterns` ({error})") from None
    arrays = read_arrays(directory / f"{NAME}.npz", ARRAYS, "not data of `kvrm data patterns`")
    data = Data(**arrays, names=names, files=files, libcs=libcs, compiled=compiled)
    if manifest(data) != told:
        raise UsageError(f"{directory}: the data is not what {NAME}.json says")
    return data


def manifest(data: Data) -> dict[str, object]:
    """Counts, and hashes of all and of each test set, which name them before anything is trained."""
    counts = np.bincount(data.origins, minlength=len(data.files))
    return {
        "functions": len(data),
        "labelled": int((data.labels != NONE).sum()),
        "none": int((data.labels == NONE).sum()),
        "files": {file: int(n) for file, n in zip(data.files, counts, strict=True)},
        "sha256": hash_of(data, np.ones(len(data), np.bool_)),
        "tests": {split: hash_of(data, data.held_out(split)) for split in data.splits},
    }


def hash_of(data: Data, chosen: Flags) -> str:
    """SHA-256 of labels, lengths and words of some functions."""
    digest = hashlib.sha256(data.labels[chosen].tobytes())
    digest.update(np.diff(data.starts)[chosen].astype("<i8").tobytes())
    for i in np.flatnonzero(chosen):
        digest.update(data.function(int(i)).astype("<u4").tobytes())
    return digest.hexdigest()
