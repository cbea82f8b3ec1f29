"""What was delivered and is not acknowledged, told by the messages' positions within their subscriptions."""

from collections.abc import Callable

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation, OperationKind
from sluicegate_grpc.semantics.calls.place import Place, Position

_MAX_OUTSTANDING = 100_000
"""Of one consumer; where a limit is only observed, nothing else bounds this."""


class Unacked:
    """Maps the positions of delivered, unacknowledged messages to their consumers.

    The engine keeps the counts. This class tells it whose count an acknowledgement lowers.

    :param gates: `(topic, exempt, now_ns) -> Gate`.
    """

    def __init__(self, gates: Callable[[str, bool, int], Gate]) -> None:
        self._gates = gates
        self._delivered: dict[tuple[str, str], dict[Position, Place]] = {}

    def delivered(self, place: Place, position: Position, now_ns: int) -> None:
        """A message was delivered to a consumer."""
        self._delivered.setdefault(place.key[:2], {})[position] = place
        place.outstanding.positions[position] = None
        if len(place.outstanding.positions) > _MAX_OUTSTANDING:
            self.acknowledged(place.key[:2], next(iter(place.outstanding.positions)), now_ns)

    def acknowledged(self, subscription: tuple[str, str], position: Position, now_ns: int) -> None:
        """A message no longer counts for its consumer.

        :param subscription: with its topic before it.
        """
        delivered = self._delivered.get(subscription)
        place = delivered.pop(position, None) if delivered is not None else None
        if place is None:
            return
        place.seen_ns = now_ns
        place.outstanding.positions.pop(position, None)
        topic, name, consumer = place.key
        op = Operation(OperationKind.ACKNOWLEDGE, topic, subscription=name, consumer=consumer, messages=1)
        self._gates(topic, False, now_ns).decide(op, now_ns)
        for tell in tuple(place.outstanding.on_acknowledged.values()):
            tell()

    def forget(self, place: Place) -> None:
        """A consumer is released; the engine forgets its count by itself."""
        delivered = self._delivered.get(place.key[:2])
        if delivered is not None:
            for position in place.outstanding.positions:
                delivered.pop(position, None)
            if not delivered:
                del self._delivered[place.key[:2]]
        place.outstanding.positions.clear()
