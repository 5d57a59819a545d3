"""Breakpoints: a set that only takes addresses at which there can be an instruction."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from kvrm.arguments import collection
from kvrm.errors import UsageError
from kvrm.memory.addresses import target


class Breakpoints(set[int]):
    """Addresses where a run stops before their instruction: multiples of 4, without tags, mapped or not.

    What else is added, by whatever method, raises UsageError and leaves the set as it was. The engines rely
    on it: the predecoded slot of an address between two instructions would lie across those of both.
    """

    def __init__(self, addresses: Iterable[Any] = ()) -> None:
        super().__init__(_checked(addresses))

    def add(self, address: Any) -> None:
        """Stop at `address` too."""
        super().add(target("a breakpoint", address))

    def remove(self, address: Any) -> None:
        """No longer stop at `address`. Raises UsageError if there is no breakpoint."""
        at = target("a breakpoint", address)
        if at not in self:
            raise UsageError(f"no breakpoint at {at:#x}")
        super().remove(at)

    def discard(self, address: Any) -> None:
        """No longer stop at `address`, if a run would."""
        super().discard(target("a breakpoint", address))

    def update(self, *others: Iterable[Any]) -> None:
        """Stop at all these too."""
        super().update(*[_checked(addresses) for addresses in others])

    def symmetric_difference_update(self, addresses: Iterable[Any]) -> None:
        """Stop at these where no breakpoint is, and no longer where one is."""
        super().symmetric_difference_update(_checked(addresses))

    def __ior__(self, addresses: Set[Any]) -> Breakpoints:  # type: ignore[override,misc]
        self.update(addresses)
        return self

    def __ixor__(self, addresses: Set[Any]) -> Breakpoints:  # type: ignore[override,misc]
        self.symmetric_difference_update(addresses)
        return self


def _checked(addresses: Iterable[Any]) -> set[int]:
    if isinstance(addresses, Breakpoints):
        return addresses
    return {target("a breakpoint", at) for at in collection("breakpoints", addresses, "addresses")}
