"""How long a test waits for what must happen before it fails."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 300
"""Far longer than anything takes alone: cores may be busy, and the process that compiles is nice."""
