"""What one client receives of one topic."""

from sluicegate.client.policed_client import PolicedClient
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS
from sluicegate.model import Action, OperationKind

_LEAST_WAIT_NS = 1_000_000
_MS = 1_000_000


class Receiver:
    """One client's messages of one topic. The client has attached as its consumer.

    :param client: whose they are.
    :param topic: as the broker names it.
    :param subscription: whose rates apply; empty for a reader without one.
    """

    __slots__ = ("_client", "_engine", "_op", "topic")

    def __init__(self, client: PolicedClient, topic: str, subscription: str = "") -> None:
        self._client = client
        self._engine = client.engine
        self.topic = topic
        self._op = client.operation(OperationKind.DISPATCH, topic, subscription)

    def wait_ns(self, nbytes: int, published_ms: int, now_ns: int, messages: int = 1) -> int:
        """How long messages have to wait before the application gets them.

        :param nbytes: bytes of payload: keys, values and headers.
        :param published_ms: when they were published, or arrived at the broker; ms since 1970.
        :param now_ns: monotonic time.
        :return: 0 if it may have them now; they are charged then.
        """
        # <hot> Runs for every message.
        op, client = self._op, self._client
        with self._engine.lock:
            # Other threads use the operation for their messages.
            op.messages = messages
            op.bytes = op.largest = nbytes
            gate = client.gate(self.topic, now_ns)
            if gate.delay is not None:
                early_ms = published_ms + gate.delay.fixed_ms - self._engine.wall_ms(now_ns)
                if early_ms > 0:
                    return min(early_ms * _MS, LONGEST_WAIT_NS)
            decision = gate.dispatch(op, now_ns)
        if decision is None or decision.action is Action.REWRITE:
            return 0
        return max(decision.delay_ns, _LEAST_WAIT_NS) if decision.action is Action.DELAY else LONGEST_WAIT_NS

    def counts_unacked(self, now_ns: int) -> bool:
        """Whether the topic limits the unacknowledged messages of a consumer."""
        with self._engine.lock:
            policies = self._client.policies(self.topic, now_ns, self._op.subscription)
        return policies.number("max_unacked_messages_per_consumer") > 0

    def acknowledged(self, messages: int, now_ns: int) -> None:
        """The application has acknowledged messages."""
        op = self._client.operation(OperationKind.ACKNOWLEDGE, self.topic, self._op.subscription)
        op.messages = messages
        with self._engine.lock:
            self._client.gate(self.topic, now_ns).decide(op, now_ns)

    def leave(self, now_ns: int) -> None:
        """Messages that waited are not wanted any more: their turn is for others."""
        with self._engine.lock:
            self._client.gate(self.topic, now_ns).abandon(self._op, now_ns)
