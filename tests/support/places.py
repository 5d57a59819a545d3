"""Where things of this repository are."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
REPOSITORY = SUPPORT.parents[1]
GUESTS = REPOSITORY / "examples/guests/bin"
"""The carried guest programs."""
