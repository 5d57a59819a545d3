"""The data set: functions of static libraries with their labels, and what is held out of training.

One C library at a time is held out, with a fifth of the other packages. Variants are what somebody compiled
of the sources of a C library, or of something like one: training sees them, unless that library is held out,
and no test does. What differs only in what is masked is there once for each C library, for its variants, and
for all other files together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm.errors import UsageError
from kvrm.isa.execution import Words
from kvrm.neural.patterns.archives import Compiled, functions_in
from kvrm.neural.patterns.encoding import Encoded, encode
from kvrm.neural.patterns.known import signatures_of
from kvrm.neural.patterns.labels import NONE, label_of

NAME = "patterns"
MOST = 4096
"""Instructions of a function that are kept."""
VARIANTS = "{} variants"
"""What the variants of a C library are called among the files."""
HELD_OUT = 5
"""One in so many files that hold no C library is for tests."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Data:
    """Functions: words of all, one behind the other; labels (uint8), file numbers (uint16), and names.

    `libcs` are the C libraries among `files`; a function of another file is always NONE.
    """

    words: Words
    starts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.uint8]
    origins: npt.NDArray[np.uint16]
    names: tuple[str, ...]
    files: tuple[str, ...]
    libcs: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def function(self, number: int) -> Words:
        """The words of one function."""
        return self.words[self.starts[number] : self.starts[number + 1]]

    def encoded(self, chosen: npt.NDArray[np.int64]) -> Encoded:
        """Some functions as policies see them."""
        return encode([self.function(int(i)) for i in chosen])

    def held_out(self, libc: str) -> Flags:
        """Which functions are the test when `libc` is left out: its own, and those of some other files."""
        if libc not in self.libcs:
            raise UsageError(f"no C library {libc!r} in the data; there are {', '.join(self.libcs)}")
        others = {
            file for file in self.files if file not in self.libcs and not file.endswith(VARIANTS.format(""))
        }
        return self._of({libc} | {file for file in others if _is_for_tests(file)})

    def training(self, libc: str | None) -> Flags:
        """Which functions training may see when `libc` is left out; all if none is."""
        if libc is None:
            return np.ones(len(self), np.bool_)
        return ~self.held_out(libc) & ~self._of({VARIANTS.format(libc)})

    def _of(self, files: set[str]) -> Flags:
        return np.array([file in files for file in self.files])[self.origins]


def _is_for_tests(file: str) -> bool:
    return hashlib.sha256(file.encode()).digest()[0] % HELD_OUT == 0


Paths = Sequence[Path]


def collect(libcs: Mapping[str, Paths], variants: Mapping[str, Paths], others: Paths) -> Data:
    """Read all files, and drop duplicates. Raises UsageError."""
    sources = [(libc, path) for libc, paths in libcs.items() for path in paths]
    sources += [(VARIANTS.format(libc), path) for libc, paths in variants.items() for path in paths]
    labelled = {file for file, _ in sources}
    sources += [(path.name.partition("_")[0], path) for path in others]
    found = [(file, function) for file, path in sources for function in functions_in(path)]
    words = [function.words[:MOST] for _, function in found]
    keep = list(_distinct(found, signatures_of(encode(words)), labelled))
    files = tuple(dict.fromkeys(file for file, _ in sources))
    kept = [found[i] for i in keep]
    labels = [label_of(f.names) if file in labelled else NONE for file, f in kept]
    lengths = [len(words[i]) for i in keep]
    return Data(
        words=np.concatenate([np.zeros(0, np.uint32), *(words[i] for i in keep)]),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels=np.array(labels, np.uint8),
        origins=np.array([files.index(file) for file, _ in kept], np.uint16),
        names=tuple(" ".join(f.names) for _, f in kept),
        files=files,
        libcs=tuple(libcs),
    )


def _distinct(
    found: Sequence[tuple[str, Compiled]], hashes: list[bytes], labelled: set[str]
) -> Iterator[int]:
    """Numbers of the functions that stay.

    Functions of other files that are called like a known one go: nobody says that they are one. So do those
    that are the same as a known one.
    """
    labels = [label_of(function.names) for _, function in found]
    known = {
        h
        for h, number, (file, _) in zip(hashes, labels, found, strict=True)
        if file in labelled and number != NONE
    }
    seen: set[tuple[str, bytes, int]] = set()
    for i, ((file, _), h, number) in enumerate(zip(found, hashes, labels, strict=True)):
        if file not in labelled and (number != NONE or h in known):
            continue
        key = (file if file in labelled else "", h, number)
        if key not in seen:
            seen.add(key)
            yield i


def save(data: Data, directory: Path) -> dict[str, object]:
    """Write the data and what it is; returns the latter."""
    directory.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        directory / f"{NAME}.npz",
        words=data.words,
        starts=data.starts,
        labels=data.labels,
        origins=data.origins,
    )
    told = manifest(data)
    texts = {"names": data.names, "libcs": data.libcs}
    (directory / f"{NAME}-names.json").write_text(json.dumps(texts) + "\n")
    (directory / f"{NAME}.json").write_text(json.dumps(told, indent=1) + "\n")
    return told


def load(directory: Path) -> Data:
    """What `save` wrote. Raises UsageError, also where the data is not what its manifest says."""
    try:
        told = json.loads((directory / f"{NAME}.json").read_text())
        texts = json.loads((directory / f"{NAME}-names.json").read_text())
        with np.load(directory / f"{NAME}.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("words", "starts", "labels", "origins")}
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror} (`kvrm data patterns` makes it)") from None
    except (ValueError, KeyError) as error:
        raise UsageError(f"{directory}: not data of `kvrm data patterns` ({error})") from None
    files = tuple(told["files"])
    data = Data(**arrays, names=tuple(texts["names"]), files=files, libcs=tuple(texts["libcs"]))
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
        "tests": {libc: hash_of(data, data.held_out(libc)) for libc in data.libcs},
    }


def hash_of(data: Data, chosen: Flags) -> str:
    """SHA-256 of labels, lengths and words of some functions."""
    digest = hashlib.sha256(data.labels[chosen].tobytes())
    digest.update(np.diff(data.starts)[chosen].astype("<i8").tobytes())
    for i in np.flatnonzero(chosen):
        digest.update(data.function(int(i)).astype("<u4").tobytes())
    return digest.hexdigest()
