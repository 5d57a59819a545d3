"""What lanes run on."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["tiered", "interpreter", "translator", "stress", "reference"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)
