"""Topics with scopes: which policies an operation obeys, and who shares a limit."""

from collections.abc import Callable, Iterator, Mapping

from sluicegate.engine.attachments import Attachments
from sluicegate.engine.faults import GateFaults
from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.engine.state import TopicState
from sluicegate.model import (
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Scope,
    split_client,
)

_MOST_KNOWN = 1_000
"""Clients of a topic whose gates are remembered; clients choose their names."""


class Scoping:
    """The policies of one topic by the scopes that an operation is in.

    :param scopes: those that set any policy of the topic.
    :param resolve: gives the policies of those who are in some of them.
    """

    def __init__(
        self, scopes: tuple[Scope, ...], resolve: Callable[[tuple[Scope, ...]], EffectivePolicies]
    ) -> None:
        self.scopes = scopes
        self._resolve = resolve
        self._policies: dict[tuple[Scope, ...], EffectivePolicies] = {}

    def of(self, principal: str, client: str, group: str) -> tuple[Scope, ...]:
        """The scopes that operations of this principal, client and subscription are in."""
        client_id = split_client(client)[0]
        return tuple(scope for scope in self.scopes if scope.matches(principal, client_id, group))

    def policies(self, scopes: tuple[Scope, ...]) -> EffectivePolicies:
        """The policies of those who are in these scopes."""
        policies = self._policies.get(scopes)
        if policies is None:
            policies = self._policies[scopes] = self._resolve(scopes)
        return policies

    def owner(self, policy: str, principal: str, client: str, group: str) -> str:
        """Whose limit holds for this principal, client and subscription; see `EffectivePolicies.owner`."""
        return self.policies(self.of(principal, client, group)).owner(policy)


class _ScopedGate(Gate):
    """The gate of a topic with scopes: it finds the gate of those whom an operation belongs to.

    Its decisions are not timed.
    """

    __slots__ = ("_compile", "_gates", "_known", "_scoping")

    def __init__(
        self,
        gates: Mapping[tuple[Scope, ...], Gate],
        scoping: Scoping,
        compile: Callable[[tuple[Scope, ...]], Gate],  # noqa: A002
        sink: DecisionSink,
        faults: GateFaults,
    ) -> None:
        common = gates[()]
        super().__init__(common.topic, common.policies, common.state, (), None, sink, faults, common.exempt)
        self.delay, self.header_delay = common.delay, common.header_delay
        self.max_delay_ms = max(gate.max_delay_ms for gate in gates.values())
        self.reads = frozenset().union(*(gate.reads for gate in gates.values()))
        self._gates = dict(gates)
        self._scoping = scoping
        self._compile = compile
        self._known: dict[tuple[str, str, str], Gate] = {}
        if not (self.exempt or self.asks(OperationKind.CREATE_SUBSCRIPTION)):
            self.state.subscriptions_known, self.state.subscriptions_needed = False, 0  # as `compile_gate`

    def publish(self, op: Operation, now_ns: int) -> Decision | None:
        # <hot> One look-up for each operation.
        gate = self._known.get((op.principal, op.client, op.subscription))
        if gate is None:
            gate = self._find(op.principal, op.client, op.subscription)
        return gate.publish(op, now_ns)

    def dispatch(self, op: Operation, now_ns: int) -> Decision | None:
        # <hot> As for publishing.
        gate = self._known.get((op.principal, op.client, op.subscription))
        if gate is None:
            gate = self._find(op.principal, op.client, op.subscription)
        return gate.dispatch(op, now_ns)

    def decide(self, op: Operation, now_ns: int) -> Decision | None:
        return self._find(op.principal, op.client, op.subscription).decide(op, now_ns)

    def asks(self, kind: OperationKind) -> bool:
        return any(gate.asks(kind) for gate in self._gates.values())

    def policies_for(self, principal: str, client: str, group: str = "") -> EffectivePolicies:
        return self._find(principal, client, group).policies

    def time_next_publish(self, report: Callable[[int], None], clock: Callable[[], int]) -> None:
        pass

    def _find(self, principal: str, client: str, group: str) -> Gate:
        known = (principal, client, group)
        gate = self._known.get(known)
        if gate is None:
            scopes = self._scoping.of(*known)
            gate = self._gates.get(scopes)
            if gate is None:
                gate = self._gates[scopes] = self._compile(scopes)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[known] = gate
        return gate


def scoped_gate(
    gates: Mapping[tuple[Scope, ...], Gate],
    scoping: Scoping,
    compile: Callable[[tuple[Scope, ...]], Gate],  # noqa: A002
    sink: DecisionSink,
    faults: GateFaults,
) -> Gate:
    """Make the gate of a topic with scopes.

    :param gates: by the scopes that operations are in: that of no scope, and of each one alone.
    :param scoping: says which scopes an operation is in.
    :param compile: makes the gate of a further set of scopes.
    :param sink: takes every decision.
    :param faults: counts checks that raise.
    """
    return _ScopedGate(gates, scoping, compile, sink, faults)


class Sharers:
    """Those who share one limit of a topic: everybody, or all for whom the same scopes set it.

    :param state: the topic's state.
    :param policies: of those whose limit it is.
    :param policy: its name.
    """

    __slots__ = ("_owner", "_policy", "_state")

    def __init__(self, state: TopicState, policies: EffectivePolicies, policy: str) -> None:
        self._state = state
        self._policy = policy if policy in policies.scoped else ""
        self._owner = policies.owner(policy)

    @property
    def are_all(self) -> bool:
        """Whether everybody shares the limit, as no scope of the topic sets it."""
        return not self._policy

    def count(self, attached: Attachments, group: str, limit: int = 0) -> int:
        """How many attachments are theirs; not exact below a limit.

        :param group: the subscription of consumers.
        """
        count = len(attached)
        if not self._policy or count < limit:
            return count
        return sum(self.include(principal, client, group) for _, principal, client in attached.holders())

    def keys(self, attached: Attachments, group: str) -> Iterator[tuple[str, bool]]:
        """The keys of the attachments that are theirs, each with whether it roams.

        :param group: the subscription of consumers.
        """
        for key, principal, client in attached.holders():
            if self.include(principal, client, group):
                yield key, attached.roams(key)

    @property
    def owner(self) -> str:
        """Tells them from others with a limit of the same policy; empty if everybody shares it."""
        return self._owner if self._policy else ""

    def include(self, principal: str, client: str, group: str) -> bool:
        """Whether this principal, client and subscription is one of them."""
        scoping = self._state.scoping
        if not self._policy or scoping is None:
            return True
        return scoping.owner(self._policy, principal, client, group) == self._owner
