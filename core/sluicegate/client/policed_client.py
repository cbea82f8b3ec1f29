"""One client of an application: who it is, and what it has attached."""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import Protocol

from sluicegate.client.refused import RefusedError, held_too_long
from sluicegate.engine.gate import Gate
from sluicegate.engine.gates import GateCache
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import (
    UNCHANGED,
    Action,
    Decision,
    EffectivePolicies,
    HeaderChange,
    Operation,
    OperationKind,
    PolicySet,
)
from sluicegate.sessions.admission import Admission, taking
from sluicegate.sessions.listings import Listings
from sluicegate.sessions.work import Turn, Until, Work

log = logging.getLogger(__name__)

_NUMBERS = count(1)
_S = 1_000_000_000


class Engine(Protocol):
    """What a client needs of the policy engine; `sluicegate.embedded.PolicyEngine` is one."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held around whatever is done with gates."""

    @property
    def policies(self) -> PolicySet:
        """The policies now in force."""

    @property
    def gates(self) -> GateCache:
        """Compiled gates by topic."""

    not_enforced: Mapping[str, str]
    """Why policies that are set do not apply in this process, by policy."""

    def wall_ms(self, now_ns: int, /) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time."""


class PolicedClient:
    """One producer or consumer object of a client library.

    Its methods, and the work that they return, are for holders of the engine's lock.

    :param engine: shared by all clients of the process.
    :param principal: whom it logs in as.
    :param name: of the client, as the library's user names it.
    :param patience_ns: how long an operation may be held; None for any time.
    """

    def __init__(self, engine: Engine, principal: str, name: str, patience_ns: int | None) -> None:
        self.engine = engine
        self.principal = principal
        self._name = f"{name}@" if name else ""  # its id without the address of a peer
        self.patience_ns = patience_ns
        self.key = f"client {next(_NUMBERS)}"
        """Tells its attachments from those of all other clients of the process."""
        self._attached: dict[tuple[OperationKind, str], Operation] = {}
        self.is_ended = False
        """Whether it is closed."""

    @property
    def exempt(self) -> bool:
        """Whether its principal skips counts, rates and factors."""
        return self.principal in self.engine.policies.exempt_principals

    def gate(self, topic: str, now_ns: int) -> Gate:
        """The gate of a topic."""
        return self.engine.gates.get(topic, self.exempt, now_ns)

    def policies(self, topic: str, now_ns: int, subscription: str = "") -> EffectivePolicies:
        """The policies of a topic that hold for this client."""
        return self.gate(topic, now_ns).policies_for(self.principal, self._name, subscription)

    def operation(self, kind: OperationKind, topic: str, subscription: str = "") -> Operation:
        """An operation of this client."""
        op = Operation(kind, topic, self.principal, self._name, subscription=subscription)
        if kind in (OperationKind.ATTACH_PRODUCER, OperationKind.PUBLISH):
            op.producer = self.key
        elif kind is not OperationKind.CREATE_SUBSCRIPTION:
            op.consumer = self.key
        return op

    # -- attaching ------------------------------------------------------------------------------------

    def is_attached(self, kind: OperationKind, topic: str) -> bool:
        """Whether it has a place as a producer or consumer of a topic."""
        return (kind, topic) in self._attached

    def attaching(self, turn: Turn, kind: OperationKind, topic: str, subscription: str = "") -> Work[None]:
        """Take a place on a topic, and that of a subscription which may be a new one; none once it has ended.

        :raises RefusedError: in the work, if there is none.
        """
        attach = self.operation(kind, topic, subscription)
        create = None
        if subscription:
            create = self.operation(OperationKind.CREATE_SUBSCRIPTION, topic, subscription)
        place = Admission(attach, create)

        def gate(now_ns: int) -> Gate:
            current = self.gate(topic, now_ns)
            if create is not None and current.asks(OperationKind.CREATE_SUBSCRIPTION):
                # A client cannot list the broker's subscriptions, so it counts its process's own.
                current.state.subscriptions_known = True
            return current

        hold = Hold(self._patience_of(turn))
        refusal = yield from taking(place, turn, hold, gate, place.decide, Listings(), topic)
        if refusal is not None:
            raise self._refused(refusal)
        place.confirmed(gate(turn.now_ns))
        self._attached[kind, topic] = attach
        if self.is_ended:  # its library refuses what it is used for now
            self.detach(turn.now_ns)

    def detach(self, now_ns: int) -> None:
        """Give up all its places; idempotent."""
        while self._attached:
            (_, topic), attach = self._attached.popitem()
            self.gate(topic, now_ns).detach(attach)

    def end(self, now_ns: int) -> None:
        """It is closed: give up all its places, for ever. Its caller need not hold the lock."""
        with self.engine.lock:
            self.is_ended = True
            self.detach(now_ns)

    # -- waiting --------------------------------------------------------------------------------------

    def holding(
        self, turn: Turn, op: Operation, decision: Decision, unchangeable: str = ""
    ) -> Work[HeaderChange]:
        """Hold an operation until its gate lets it pass.

        :param decision: what the gate has decided first.
        :param unchangeable: why its messages' headers cannot be changed; empty if they can.
        :return: what changes in the headers of its messages.
        :raises RefusedError: in the work, if it is refused, or was held for as long as its client waits.
        """
        hold = Hold(self._patience_of(turn))
        decided: Decision | None = decision
        stops = decided
        try:
            while stops is not None:
                wait_ns = hold.wait_ns(stops, turn.now_ns)
                if not wait_ns:
                    raise self._refused(stops)
                yield Until(turn.now_ns + wait_ns)
                decided = self.gate(op.topic, turn.now_ns).decide(op, turn.now_ns)
                stops = _stops(decided)
            return UNCHANGED if decided is None else self.change_by(decided, unchangeable)
        finally:
            if stops is not None:  # refused, cancelled or closed: its turn in the queue is for others
                self.gate(op.topic, turn.now_ns).abandon(op, turn.now_ns)

    def change_by(self, decision: Decision, unchangeable: str) -> HeaderChange:
        """What a decision changes in headers.

        :param unchangeable: why that cannot be: then nothing changes, and the policies are named once as not
            enforced.
        """
        if not unchangeable or decision.headers is UNCHANGED:
            return decision.headers
        for policy in {reason.policy for reason in decision.reasons}:
            self.leave(policy, f"headers stay as they are: {unchangeable}")
        return UNCHANGED

    def leave(self, policy: str, why: str) -> None:
        """Name a policy that is not enforced here, in the log and to who asks; once."""
        engine = self.engine
        if policy not in engine.not_enforced:
            engine.not_enforced = {**engine.not_enforced, policy: why}
            log.warning("policy %s is not enforced in this process: %s", policy, why)

    def _patience_of(self, turn: Turn) -> int:
        return self.patience_ns if self.patience_ns is not None else 2**62

    def _refused(self, decision: Decision) -> RefusedError:
        if decision.action is Action.DELAY and self.patience_ns is not None:
            return held_too_long(decision, self.patience_ns / _S)
        return RefusedError(decision)


def _stops(decision: Decision | None) -> Decision | None:
    """A decision that does not let an operation pass as it is."""
    return None if decision is None or decision.action is Action.REWRITE else decision
