"""Bytes for each lane: what it reads from standard input, or wrote to standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kvrm import arguments
from kvrm.errors import UsageError

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


class Texts(Sequence[bytes]):
    """A text for each lane, all in one array: that of lane i is `data[starts[i] : starts[i] + lengths[i]]`.

    `data` is uint8: of shape (bytes,), one text after the other, each of `lengths[i]` bytes (uint64); or of
    shape (lanes, most), a row for each, of which the first `lengths[i]` bytes count, or all. It may be an
    array in a GPU's memory (contiguous, `__cuda_array_interface__`), for lanes on target "cuda". As a
    sequence it has `bytes`, and it equals any sequence of the same.
    """

    def __init__(self, data: Any, lengths: npt.ArrayLike | None = None) -> None:
        there = arguments.on_device("texts", data)
        self.on_device = there is not None
        if there is None:
            data = np.ascontiguousarray(arguments.array("texts", data))
            shape, dtype, good = data.shape, data.dtype, True
        else:
            shape, dtype, good = there
        if dtype != np.uint8 or len(shape) not in (1, 2) or not good:
            raise UsageError(f"texts are contiguous uint8 of one or two dimensions, not {dtype} of {shape}")
        self.data = data
        self.lengths, self.starts = _places(shape, lengths)

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """These, one after the other."""
        try:
            lengths = np.fromiter(map(len, texts), np.uint64, len(texts))
            together = b"".join(texts)
        except TypeError:
            raise UsageError(f"Texts.of takes a list of bytes, not {arguments.shown(texts)}") from None
        return cls(np.frombuffer(together, np.uint8), lengths)

    def copied(self, copy: Callable[[Bytes], Bytes]) -> Texts:
        """The same in a copy of the array, unless that is in a GPU's memory."""
        return self if self.on_device else Texts(copy(self.data), self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[i] for i in arguments.positions("texts", at, len(self))]
        if self.on_device:
            raise UsageError("these texts are in a GPU's memory")
        at = arguments.position("texts", at, len(self))
        start = int(self.starts[at])
        text: bytes = self.data.reshape(-1)[start : start + int(self.lengths[at])].tobytes()
        return text

    def __iter__(self) -> Iterator[bytes]:
        if self.on_device:
            raise UsageError("these texts are in a GPU's memory")
        whole = self.data.tobytes()
        for start, end in zip(self.starts.tolist(), (self.starts + self.lengths).tolist(), strict=True):
            yield whole[start:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<kvrm.Texts {len(self)} on a GPU>" if self.on_device else repr(list(self))


def is_per_lane(values: Any) -> bool:
    """Whether this is a text for each lane, and not the same for all."""
    here = isinstance(values, list | tuple | Texts | np.ndarray)
    return here or hasattr(values, "__cuda_array_interface__")


def _places(shape: tuple[int, ...], lengths: npt.ArrayLike | None) -> tuple[Words, Words]:
    """Length and start of each text. Raises UsageError."""
    if lengths is None:
        if len(shape) == 1:
            raise UsageError("texts one after the other need lengths")
        lengths = np.full(shape[0], shape[1], np.uint64)
    each = arguments.array("lengths", lengths)
    most = shape[1] if len(shape) == 2 else shape[0]
    good = each.ndim == 1 and each.dtype.kind in "iu" and not (len(shape) == 2 and len(each) != shape[0])
    if not good or (len(each) and (each.min() < 0 or each.max() > most)):
        raise UsageError(f"lengths of texts in uint8 of {shape} are integers up to {most}, one for each lane")
    each = each.astype(np.uint64)
    if len(shape) == 2:
        return each, np.arange(shape[0], dtype=np.uint64) * np.uint64(shape[1])
    starts = np.cumsum(each) - each
    if int(each.sum()) != shape[0]:
        raise UsageError(f"lengths of texts add up to {int(each.sum())}, and there are {shape[0]} bytes")
    return each, starts
