"""One topic whose faults are injected, in a time of its own."""

from collections.abc import Mapping

from sluicegate import chaos
from sluicegate.engine.gate import Gate
from sluicegate.engine.state import TopicState
from sluicegate.model import Operation, OperationKind, TopicName
from sluicegate.testing import ManualClock, ManualContext, RecordingSink, build_gate

TOPIC = "orders"
UNTIL = "1970-01-01T01:00Z"
"""An hour after a ManualClock's time began."""


class Lab:
    """A topic, and the time of its gateway."""

    def __init__(self, **policies: object) -> None:
        self.clock = ManualClock(1_000_000_000)
        self.sink = RecordingSink()
        self.state = TopicState(TopicName(TOPIC, "default"), self.clock.now_ns)
        self.gate = self.gate_of(policies)

    def gate_of(self, policies: Mapping[str, object], *, exempt: bool = False) -> Gate:
        """The topic's gate under other policies, of which None is unset; its state stays."""
        given = {"chaos_until": UNTIL, **policies}
        return build_gate(
            {field: value for field, value in given.items() if value is not None},
            [chaos],
            now_ns=self.clock.now_ns,
            topic=self.state.topic,
            sink=self.sink,
            state=self.state,
            exempt=exempt,
            context=ManualContext(self.clock),
        )


def publish(*, reliable: bool = True) -> Operation:
    """One message to the topic."""
    return Operation(
        OperationKind.PUBLISH, TOPIC, producer="p", messages=1, bytes=10, largest=10, reliable=reliable
    )


def dispatch(*, reliable: bool = True) -> Operation:
    """One message to a subscription."""
    return Operation(
        OperationKind.DISPATCH, TOPIC, subscription="s", consumer="c", messages=1, bytes=10, reliable=reliable
    )


def endless_context() -> ManualContext:
    """A gateway for sessions whose own time stands at 1970, so that nothing ends."""
    return ManualContext(ManualClock(0))
