"""What all tests on real brokers have in common: their marks, and what to do where there is no broker."""

import os
from pathlib import Path

import pytest

_TIMEOUT_S = 3600
"""Ends what hangs; no test depends on it."""


def mark(items: list[pytest.Item], folder: Path) -> None:
    """Mark the tests below a folder: they need a broker and the time to start one."""
    below = f"{folder}{os.sep}"
    for item in items:
        if str(item.path).startswith(below):
            item.add_marker(pytest.mark.broker)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


def need(missing: str | None) -> None:
    """Skip where something is missing; with SLUICEGATE_REQUIRE_BROKER=1 that is a failure.

    :param missing: what, in words; None if nothing.
    """
    if missing is not None:
        if os.environ.get("SLUICEGATE_REQUIRE_BROKER") == "1":
            pytest.fail(f"a real broker is required here: {missing}")
        pytest.skip(f"no real broker: {missing}")
