"""Fixtures for pytest; take them with `pytest_plugins = ["sluicegate.testing.fixtures"]`."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from sluicegate.engine.gate import Gate
from sluicegate.testing.clock import ManualClock
from sluicegate.testing.gates import build_gate
from sluicegate.testing.sink import RecordingSink

MakeGate: TypeAlias = Callable[..., Gate]
"""`make_gate(policies, plugins=(), **options)`, options as for `build_gate`."""


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that the test turns."""
    return ManualClock()


@pytest.fixture
def recording_sink() -> RecordingSink:
    """The decisions of the gates of `make_gate`."""
    return RecordingSink()


@pytest.fixture
def make_gate(manual_clock: ManualClock, recording_sink: RecordingSink) -> MakeGate:
    """Builds gates at the time of `manual_clock` that record to `recording_sink`."""

    def make(policies: dict[str, object], plugins: Any = (), **options: Any) -> Gate:
        return build_gate(
            policies, plugins, **{"now_ns": manual_clock.now_ns, "sink": recording_sink, **options}
        )

    return make
