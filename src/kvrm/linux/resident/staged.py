"""All staged system calls by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvrm.linux.resident import calls, descriptors, files, mappings

CALLS: Mapping[str, Callable[..., int]] = vars(calls) | vars(descriptors) | vars(files) | vars(mappings)
"""What has a call's name is that call."""
