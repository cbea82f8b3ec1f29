"""The messages of one client to one topic."""

from dataclasses import dataclass
from enum import Enum
from time import monotonic_ns
from typing import Final

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.work import Turn, Work


class Pass(Enum):
    """What becomes of a message that need not wait."""

    SEND = "send"
    DROP = "drop"
    """It is discarded, as `on_limit: drop` says; its sender wants no answer."""


SEND: Final = Pass.SEND


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that has to wait for its rate."""

    client: PolicedClient
    op: Operation
    decision: Decision

    def waiting(self, turn: Turn) -> Work[None]:
        """The work that waits; see `PolicedClient.holding`."""
        return self.client.holding(turn, self.op, self.decision)


class Publisher:
    """One client's messages to one topic. The client has attached as its producer.

    :param client: whose they are.
    :param topic: as the broker names it.
    :param reliable: False if the client asks for no answers (acks=0), so that messages may be dropped.
    """

    __slots__ = (
        "_changes",
        "_client",
        "_compiled",
        "_exempt",
        "_fixed",
        "_gates",
        "_lock",
        "_op",
        "_reliable",
        "topic",
    )

    def __init__(self, client: PolicedClient, topic: str, *, reliable: bool = True) -> None:
        self._client = client
        self._gates = client.engine.gates
        self._lock = client.engine.lock
        self._changes = -1
        self._exempt = False
        """Whether the principal is exempt, as of `_changes` of the policies."""
        self._compiled = self._gates.live
        self._fixed = -1, 0
        """The fixed delay in ms, as of a change of the policies."""
        self._reliable = reliable
        self.topic = topic
        self._op = self._operation()

    def _operation(self) -> Operation:
        op = self._client.operation(OperationKind.PUBLISH, self.topic)
        op.reliable = self._reliable
        return op

    def send(
        self, nbytes: int, now_ns: int, messages: int = 1, largest: int | None = None, delay_ms: int = 0
    ) -> Pass | HeldMessage:
        """Decide one message or one batch.

        :param nbytes: bytes of payload: keys, values and headers.
        :param now_ns: monotonic time.
        :param messages: how many messages these are.
        :param largest: bytes of the largest message; all together if it is not known.
        :param delay_ms: the delivery delay that the application asks for.
        :return: what becomes of it, or the message that has to wait.
        :raises RefusedError: if it is refused.
        """
        # <hot> Runs for every message.
        gates = self._gates
        with self._lock:
            # Other threads use the operation for their messages.
            op = self._op
            op.messages = messages
            op.bytes = nbytes
            op.largest = nbytes if largest is None else largest
            op.delay_ms = delay_ms
            if gates.changes != self._changes:
                self._changes, self._exempt = gates.changes, self._client.exempt
                self._compiled = gates.exempt if self._exempt else gates.live
            gate = self._compiled.get(self.topic) or gates.get(self.topic, self._exempt, now_ns)
            decision = gate.publish(op, now_ns)
            if decision is None:
                return SEND
            return self._settle(op, decision)

    def fixed_delay_ms(self) -> int:
        """The delivery delay that the topic's messages get in place of their own; 0 for none."""
        if self._fixed[0] != self._gates.changes:
            with self._lock:
                changes = self._gates.changes
                delay = self._gates.get(self.topic, self._exempt, monotonic_ns()).delay
            self._fixed = changes, 0 if delay is None else delay.fixed_ms
        return self._fixed[1]

    def _settle(self, op: Operation, decision: Decision) -> Pass | HeldMessage:
        action = decision.action
        if action is Action.DELAY:
            self._op = self._operation()  # the other one keeps its place in the queue until it passes
            return HeldMessage(self._client, op, decision)
        if action is Action.DROP:
            return Pass.DROP
        if action is Action.REWRITE:
            return SEND
        raise RefusedError(decision)
