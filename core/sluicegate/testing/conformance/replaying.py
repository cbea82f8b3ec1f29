"""The oracle: what a door decided is decided again, by fresh gates of the same policies in manual time.

Every operation is given to a gate of its own at the time at which the door had it decided. It must decide the
same: the action, the policies, and how long to wait. Counts and buckets are exact, as gates know no other
time than the one they are told. Attempts of a held operation between its first and its last one are recorded
nowhere; so it is not compared how long the connection rate has a client wait, which depends on them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sluicegate.config.load import load, parse_file
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.plugins import load_plugins
from sluicegate.testing.conformance.playing import Left, Played, counts_of
from sluicegate.testing.sink import Recorded, RecordingSink

_EXACT_NS = 1_000
"""By how much waits may differ: buckets calculate with fractions."""
_BY_ATTEMPTS = "connection_rate_limit"
_RATES = (
    ("max_publish_rate", OperationKind.PUBLISH, "messages", False),
    ("max_publish_rate_bytes", OperationKind.PUBLISH, "bytes", False),
    ("max_dispatch_rate", OperationKind.DISPATCH, "messages", False),
    ("max_dispatch_rate_bytes", OperationKind.DISPATCH, "bytes", False),
    ("max_subscription_dispatch_rate", OperationKind.DISPATCH, "messages", True),
    ("max_subscription_dispatch_rate_bytes", OperationKind.DISPATCH, "bytes", True),
)
"""Policies that are rates: kind and size of the operations, and whether each subscription has its own."""


class Replay:
    """Decides again what a door has decided.

    :param file: the door's policy file.
    """

    def __init__(self, file: Path) -> None:
        parsed = parse_file(file, {})
        plugins = load_plugins(parsed.plugin_modules, ())
        loaded = load(file, plugins.policy_models, plugins.broker_models, {}, parsed=parsed)
        config = loaded.config.brokers[0]
        self._policies = loaded.policies((), 1, config.name)
        self._sink = RecordingSink()
        self._host = EngineHost(
            config, plugins, self._policies, self._sink, apply=lambda call: call(), facts=Facts(), slow_ms=0
        )

    def differences(self, played: Played) -> Iterator[str]:
        """What is decided otherwise, in words."""
        expected: list[Recorded] = []
        if played.events:  # a new topic has no subscriptions
            first_op = played.events[0]
            self._gate(first_op.op, first_op.now_ns).state.learn_subscriptions(())
        held: list[Operation] = []
        for event in played.events:
            gate = self._gate(event.op, event.now_ns)
            if isinstance(event, Left):
                gate.detach(event.op)
                continue
            expected.append(event)
            if event.decision is not None and event.decision.observed:
                continue  # the operation's own decision is the next one
            first = len(self._sink.records)
            self._decide(gate, event, held)
            replayed = self._sink.records[first:]
            if [_outcome(each) for each in replayed] != [_outcome(each) for each in expected]:
                yield f"{event.op}: {list(map(_words, expected))}, replayed: {list(map(_words, replayed))}"
            yield from _different_waits(expected, replayed)
            if event.op.kind is OperationKind.ATTACH_CONSUMER and not _passes(event.decision):
                gate.detach(replace(event.op, kind=OperationKind.CREATE_SUBSCRIPTION, consumer=""))
            expected = []
        yield from self._different_counts(played)
        yield from self._too_fast(played)

    def _gate(self, op: Operation, now_ns: int) -> Gate:
        return self._host.gates.get(op.topic, op.principal in self._policies.exempt_principals, now_ns)

    def _decide(self, gate: Gate, event: Recorded, held: list[Operation]) -> None:
        op = _again(event.op, held)
        decision = gate.decide(op, event.now_ns)
        if decision is not None and decision.action is Action.DELAY:
            held.append(op)

    def _different_counts(self, played: Played) -> Iterator[str]:
        state = self._host.gates.states.get(played.topic)
        if state is not None and (counts := counts_of(state)) != dict(played.counts):
            yield f"counted: {dict(played.counts)}, replayed: {counts}"

    def _too_fast(self, played: Played) -> Iterator[str]:
        """Windows of time in which more passed than rate x time + burst."""
        passed = [each for each in played.events if isinstance(each, Recorded) and _passes(each.decision)]
        policies = self._host.compiler.resolve(played.topic)
        for policy, kind, size, by_subscription in _RATES:
            rate = policies.number(policy)
            if not rate or not policies.mode(policy).enforces:
                continue
            ops = [each for each in passed if each.op.kind is kind and not self._is_exempt(each.op)]
            for name in {each.op.subscription if by_subscription else "" for each in ops}:
                ours = [each for each in ops if not by_subscription or each.op.subscription == name]
                taken = [(each.now_ns, getattr(each.op, size)) for each in ours]
                if most := _over(taken, rate, rate * policies.number("burst_seconds")):
                    yield f"{policy} is {rate:g}: {most}"

    def _is_exempt(self, op: Operation) -> bool:
        return op.principal in self._policies.exempt_principals


def _again(op: Operation, held: list[Operation]) -> Operation:
    """The same operation as was held before, or a new one."""
    copy = replace(op, waiter=None, held_ns=0, totals=None)
    for number, other in enumerate(held):
        if _key(other) == _key(op):
            before = held.pop(number)
            copy.waiter, copy.held_ns = before.waiter, before.held_ns
            return copy
    return copy


def _key(op: Operation) -> tuple[object, ...]:
    """What tells held operations from each other; how much a dispatch carries may change."""
    size = (op.messages, op.bytes) if op.kind is OperationKind.PUBLISH else ()
    return (op.kind, op.client, op.producer, op.subscription, op.consumer, *size)


def _passes(decision: Decision | None) -> bool:
    return decision is None or (decision.action is Action.REWRITE and not decision.observed)


def _outcome(record: Recorded) -> tuple[object, ...]:
    decision = record.decision
    if decision is None:
        return ()
    policies = [reason.policy for reason in decision.reasons]
    return (decision.action, decision.observed, policies, decision.headers)


def _words(record: Recorded) -> str:
    decision = record.decision
    return "allow" if decision is None else f"{decision.action} by {decision.reasons[0].policy}"


def _different_waits(expected: Sequence[Recorded], replayed: Sequence[Recorded]) -> Iterator[str]:
    for one, other in zip(expected, replayed, strict=False):
        if one.decision is None or other.decision is None:
            continue
        difference = abs(one.decision.delay_ns - other.decision.delay_ns)
        if difference > _EXACT_NS and one.decision.reasons[0].policy != _BY_ATTEMPTS:
            yield f"{one.op}: waits {one.decision.delay_ns} ns, replayed: {other.decision.delay_ns} ns"


def _over(taken: Sequence[tuple[int, int]], rate: float, burst: float) -> str:
    """The first window in which too much passed; empty if there is none."""
    burst = max(burst, *(size for _, size in taken), 0)
    for start, (from_ns, _) in enumerate(taken):
        total = 0
        for at_ns, size in taken[start:]:
            total += size
            if total > rate * (at_ns - from_ns) / 1e9 + burst + 1e-6:
                return f"{total} passed in {(at_ns - from_ns) / 1e9:.3f} s"
    return ""
