"""The messages of one client to one topic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Final

from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.model import (
    UNCHANGED,
    Action,
    Decision,
    HeaderChange,
    Message,
    Operation,
    OperationKind,
)
from sluicegate.sessions.work import Turn, Work

_BATCHED: Final = "they were batched by the application"


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that has to wait for its rate."""

    client: PolicedClient
    op: Operation
    decision: Decision
    unchangeable: str = ""
    """Why its headers cannot be changed; empty if they can."""

    def waiting(self, turn: Turn) -> Work[HeaderChange]:
        """The work that waits; see `PolicedClient.holding`."""
        return self.client.holding(turn, self.op, self.decision, self.unchangeable)


class Publisher:
    """One client's messages to one topic. The client has attached as its producer.

    :param client: whose they are.
    :param topic: as the broker names it.
    :param describe: makes a message as policies read it of what the client's library has of it.
    :param reliable: False if the client asks for no answers (acks=0), so that messages may be dropped.
    :param unchangeable: why the headers of messages cannot be changed; empty if they can.
    """

    __slots__ = (
        "_changes",
        "_client",
        "_compiled",
        "_delay",
        "_delay_changes",
        "_describe",
        "_exempt",
        "_gates",
        "_lock",
        "_op",
        "_reliable",
        "_unchangeable",
        "topic",
    )

    def __init__(
        self,
        client: PolicedClient,
        topic: str,
        describe: Callable[..., Message],
        *,
        reliable: bool = True,
        unchangeable: str = "",
    ) -> None:
        self._client = client
        self._describe = describe
        self._gates = client.engine.gates
        self._lock = client.engine.lock
        self._changes = -1
        self._exempt = False
        """Whether the principal is exempt, as of `_changes` of the policies."""
        self._compiled = self._gates.live
        self._delay = 0, ""
        """Fixed delay in ms, and the header that says when to deliver, as of a change of the policies."""
        self._delay_changes = -1
        self._reliable = reliable
        self._unchangeable = unchangeable
        self.topic = topic
        self._op = self._operation()

    def _operation(self) -> Operation:
        op = self._client.operation(OperationKind.PUBLISH, self.topic)
        op.reliable = self._reliable
        return op

    def send(
        self,
        nbytes: int,
        now_ns: int,
        contents: Sequence[tuple[Any, ...]] | None,
        messages: int = 1,
        largest: int | None = None,
        delay_ms: int = 0,
    ) -> HeldMessage | HeaderChange | None:
        """Decide one message or one batch.

        :param nbytes: bytes of payload: keys, values and headers.
        :param now_ns: monotonic time.
        :param contents: the arguments of `describe` for each message; None if they cannot be read.
        :param messages: how many messages these are.
        :param largest: bytes of the largest message; all together if it is not known.
        :param delay_ms: the delivery delay that the application asks for.
        :return: what changes in its headers, or the message that has to wait; None if it is discarded, as
            `on_limit: drop` says: its sender wants no answer.
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
            if gate.reads:
                self._read(op, contents)
            decision = gate.publish(op, now_ns)
            if decision is None:
                return UNCHANGED
            return self._settle(op, decision, _BATCHED if contents is None else self._unchangeable)

    def delay(self) -> tuple[int, str]:
        """How the topic's policies set the delivery time of messages.

        :return: the delay in ms that all of them get, 0 for none; and the header in which each says its own,
            empty for none.
        """
        if self._delay_changes != self._gates.changes:
            with self._lock:
                self._delay_changes = self._gates.changes
                gate = self._gates.get(self.topic, self._exempt, monotonic_ns())
            fixed_ms = 0 if gate.delay is None else gate.delay.fixed_ms
            self._delay = fixed_ms, "" if gate.header_delay is None else gate.header_delay.header
        return self._delay

    def _read(self, op: Operation, contents: Sequence[tuple[Any, ...]] | None) -> None:
        """Set what policies read."""
        op.contents = () if contents is None else [self._describe(*parts) for parts in contents]
        op.unreadable = _BATCHED if contents is None else ""

    def _settle(
        self, op: Operation, decision: Decision, unchangeable: str
    ) -> HeldMessage | HeaderChange | None:
        action = decision.action
        if action is Action.DELAY:
            self._op = self._operation()  # the other one keeps its place in the queue until it passes
            return HeldMessage(self._client, op, decision, unchangeable)
        if action is Action.DROP:
            return None
        if action is Action.REWRITE:
            return self._client.change_by(decision, unchangeable)
        raise RefusedError(decision)
