"""A producer on a topic, as one connection knows it."""

import sys

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation
from sluicegate_kafka.session.producing.inspecting import inspects
from sluicegate_kafka.session.shared.plain_producers import PlainProducer


class Attached:
    """One producer on one topic.

    :param operation: its one operation, whose sizes are reset for each request.
    :param gate: the topic's gate.
    :param now_ns: monotonic time.
    """

    __slots__ = ("delayed", "gate", "inspects", "last_ns", "operation", "plain", "size_limit")

    def __init__(self, operation: Operation, gate: Gate, now_ns: int) -> None:
        self.operation = operation
        self.plain: PlainProducer | None = None
        """Its place among equal clients, if it has no producer id."""
        self.last_ns = now_ns
        self.use(gate)

    def use(self, gate: Gate) -> None:
        """Use a newly compiled gate."""
        self.gate = gate
        self.size_limit = int(gate.policies.number("max_message_size")) or sys.maxsize
        self.delayed = gate.delay is not None
        self.inspects = inspects(gate)
