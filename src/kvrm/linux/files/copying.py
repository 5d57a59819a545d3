"""Independent copies of the guest's files, named and open, for snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, Protocol, TypeVar, cast

from kvrm.linux.files.content import Budget
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.nodes import Node


class NodeCopies:
    """Copies of all nodes that can be reached from `roots`; nodes that never change are shared.

    `budget` is that of the copies, and counts their contents already.
    """

    def __init__(self, roots: Iterable[Node], budget: Budget) -> None:
        self.budget = budget
        self._copies = {id(node): _shallow(node, budget) for node in _reachable(roots)}
        for node in self._copies.values():
            self._link(node)

    def of(self, node: Node) -> Node:
        """The copy of `node`, or the node itself if it is shared."""
        return self._copies.get(id(node), node)

    def directory(self, node: Directory) -> Directory:
        other = self.of(node)
        assert isinstance(other, Directory)
        return other

    def _link(self, node: Node) -> None:
        if node.home:
            home, name = self.directory(node.home[0]), node.home[1]
            node.home = (home, name)
            home.remember(name, node)
        if isinstance(node, Directory):
            node.parent = self.directory(node.parent)
            if node.on_host and not node.dead:
                node.parent.remember(node.name, node)
            node.entries = {name: child and self.of(child) for name, child in node.entries.items()}


class Copied(Protocol):
    """An open file, or what several of them share."""

    def relink(self, copies: FileCopies) -> None:
        """This is a shallow copy: part it from the original."""


T = TypeVar("T", bound=Copied)


class FileCopies:
    """Independent copies of open files and of what they share, each made once whatever refers to it."""

    def __init__(self, nodes: NodeCopies) -> None:
        self.nodes = nodes
        self._copies: dict[int, Any] = {}

    def of(self, original: T) -> T:
        """The copy of an open file, or of what it shares."""
        if id(original) not in self._copies:
            # known before it is linked: an epoll instance and what it watches refer to each other
            self._copies[id(original)] = made = copy(original)
            made.relink(self)
        return cast("T", self._copies[id(original)])


def _shallow(node: Node, budget: Budget) -> Node:
    other = copy(node)
    other.part(budget)
    return other


def _reachable(roots: Iterable[Node]) -> Iterator[Node]:
    """The nodes with a state of their own, reached through entries, parents and homes, once each."""
    seen: set[int] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if id(node) in seen or node.immutable:
            continue
        seen.add(id(node))
        yield node
        if node.home:
            pending.append(node.home[0])
        if isinstance(node, Directory):
            pending.append(node.parent)
            pending.extend(child for child in node.entries.values() if child is not None)
