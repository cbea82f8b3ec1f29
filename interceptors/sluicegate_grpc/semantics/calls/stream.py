"""One open stream that delivers messages to a consumer."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate_grpc.semantics.calls.attach_call import Attaching
from sluicegate_grpc.semantics.calls.attachments import Caller, Place, Position

if TYPE_CHECKING:
    from sluicegate_grpc.semantics.calls.calls import Calls


class Stream:
    """The delivery of messages to one consumer: each is decided by the gate as a DISPATCH.

    Several streams may serve one consumer. One that lives only as long as its stream detaches with it.

    :param calls: what it belongs to.
    :param place: the consumer; None if there is no room for one more.
    :param caller: whose it is.
    :param attaching: if the consumer must attach first.
    :param whole: True if the consumer is there for as long as this stream, and no longer.
    """

    __slots__ = ("_calls", "_place", "_whole", "attaching", "caller", "op", "open")

    def __init__(
        self, calls: "Calls", place: Place | None, caller: Caller, attaching: Attaching | None, whole: bool
    ) -> None:
        self._calls = calls
        self._place = place
        self._whole = whole
        self.caller = caller
        self.attaching = attaching
        """Must go through the gate before the stream does, if it is not None: see `decision`."""
        key = place.key if place is not None else ("", "", "")
        self.op: Operation = caller.operation(OperationKind.DISPATCH, key)
        """The operation of every message: set `messages`, `bytes` and `largest`, then ask the gate."""
        self.open = True
        if place is not None:
            place.streams += 1

    @property
    def decision(self) -> Decision | None:
        """None if the stream may open; DELAY to ask again (`Calls.again` with `attaching`) after a while."""
        return None if self.attaching is None else self.attaching.decision

    def gate(self, now_ns: int) -> Gate:
        """The topic's gate; not to be kept over a wait."""
        op = self.op
        op.reliable = self._calls.is_reliable(op.topic)
        return self._calls.gate(op.topic, self.caller.exempt, now_ns)

    def counts_unacked(self, gate: Gate) -> bool:
        """Whether `sending` and `sent` are to be called for each message."""
        return self.open and self.op.reliable and gate.asks(OperationKind.ACKNOWLEDGE)

    def sending(self, position: Position, now_ns: int) -> None:
        """A message is about to be decided; if it was delivered before, it does not count from then."""
        self._calls.acknowledged(self.op.topic, self.op.subscription, position, now_ns)

    def sent(self, position: Position, now_ns: int) -> None:
        """A message was let through, and is not acknowledged yet."""
        if self._place is not None:
            self._calls.delivered(self._place, position, now_ns)

    def on_acknowledged(self, tell: Callable[[], None]) -> None:
        """Have it told, until the stream is closed, whenever its consumer has acknowledged something."""
        if self._place is not None:
            self._place.on_acknowledged[self] = tell

    def close(self, now_ns: int, *, has_left: bool = True) -> None:
        """The stream has ended; idempotent.

        :param has_left: False if the server ended it in order; the consumer then still counts as attached.
        """
        place = self._place
        if place is None or not self.open:
            return
        self.open = False
        place.streams -= 1
        place.on_acknowledged.pop(self, None)
        gate = self._calls.gate(self.op.topic, self.caller.exempt, now_ns)
        gate.abandon(self.op, now_ns)
        if self.attaching is not None:
            self._calls.failed(self.attaching, now_ns)
        self._calls.stream_ended(place, now_ns, has_left=has_left or self._whole)
