"""Gates and decisions as the log sees them, and logs that are always closed."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluicegate.decisions import DecisionLog
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason, TopicName

SECOND_NS = 1_000_000_000


ORDERS = TopicName("orders.eu", "orders")


class FakeGate:
    """The little that the log looks at."""

    def __init__(self, topic: TopicName = ORDERS, version: int = 7) -> None:
        self.topic = topic
        self.version = version

    def time_next_publish(self, report: Callable[[int], None], clock: Callable[[], int]) -> None:
        """This one decides nothing, so that there is nothing to time."""


def publish(**fields: Any) -> Operation:
    values = {"principal": "User:anna", "client": "app@10.0.0.7:5000", "messages": 3, "bytes": 300, **fields}
    return Operation(OperationKind.PUBLISH, "orders.eu", **values)


def rejection(action: Action = Action.REJECT, **fields: Any) -> Decision:
    reason = Reason(
        "max_producers_per_topic",
        Outcome.LIMIT_REACHED,
        "Producer limit reached for topic orders.eu. Current: 10, Limit: 10.",
        current=10,
        limit=10,
        level="topic",
    )
    return Decision(action, (reason,), **fields)


@pytest.fixture(autouse=True)
def _lines_are_caught(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that was set up in this process keeps its lines to itself; here they are looked at."""
    monkeypatch.setattr(logging.getLogger("sluicegate"), "propagate", True)
    caplog.set_level(logging.INFO, logger="sluicegate")


@pytest.fixture
def gate() -> FakeGate:
    return FakeGate()


@pytest.fixture
def open_log() -> Iterator[Callable[..., DecisionLog]]:
    """Opens logs whose writer runs ten times as often as usual, and closes those that the test did not."""
    opened: list[DecisionLog] = []

    def make(directory: Any, **options: Any) -> DecisionLog:
        log = DecisionLog(directory, "kafka", "main", **{"period_s": 0.02, **options})
        opened.append(log)
        return log

    yield make
    for log in opened:
        assert log.close()
