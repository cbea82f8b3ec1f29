"""The compiled policies of one topic: a few plain callables, run in order, and their outcome."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from sluicegate.engine import texts
from sluicegate.engine.check import Check
from sluicegate.engine.decided import joined, parts_read, reading
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import CAUGHT, Fault, GateFaults, GuardedCheck, error_text, plugin_of, shown
from sluicegate.engine.shared_limits import Asking
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import Waiter
from sluicegate.model import (
    UNCHANGED,
    Action,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    Reason,
    TopicName,
)

__all__ = ["DecisionSink", "Gate", "GateFaults", "allowed"]

_ATTACHING = frozenset(
    {OperationKind.ATTACH_PRODUCER, OperationKind.CREATE_SUBSCRIPTION, OperationKind.ATTACH_CONSUMER}
)


class DecisionSink(Protocol):
    """Takes every decision once; both methods run on the path of messages and must not block or raise."""

    def allowed(self, gate: "Gate", op: Operation, now_ns: int, /) -> None:
        """An operation was simply allowed."""

    def decided(self, gate: "Gate", op: Operation, decision: Decision, now_ns: int, /) -> Decision:
        """Another decision was taken, or only observed.

        :return: the decision with its id and the gate's policy version.
        """


class Gate:
    """The checks of one topic at one policy version, for exempt principals or for all others.

    Made by `compile_gate`. A gate keeps nothing that must outlive it: counts and balances are in `state`.
    """

    __slots__ = (
        "__weakref__",
        "_checks",
        "_dispatch_calls",
        "_entries",
        "_faults",
        "_first",
        "_has_more",
        "_largest",
        "_second",
        "_sink",
        "_start",
        "_third",
        "delay",
        "exempt",
        "header_delay",
        "max_delay_ms",
        "policies",
        "reads",
        "seen_ops",
        "state",
        "timing",
        "topic",
        "version",
    )

    def __init__(
        self,
        topic: TopicName,
        policies: EffectivePolicies,
        state: TopicState,
        checks: Sequence[Check],
        delay: DelayRule | None,
        sink: DecisionSink,
        faults: GateFaults,
        exempt: bool,
    ) -> None:
        self.topic = topic
        self.version = policies.version
        self.policies = policies
        self.state = state
        self.delay = delay if delay is not None and delay.fixed_ms > 0 else None
        """The topic's fixed delay; None if producers choose the delivery time."""
        self.max_delay_ms = delay.max_ms if delay is not None and self.delay is None else 0
        """Longest delay that producers may request; if it is not 0, operations must set `delay_ms`."""
        self.header_delay = delay if delay is not None and delay.header and self.delay is None else None
        """The rule of a topic whose messages say in a header when they are delivered."""
        self.exempt = exempt
        self.seen_ops = 0
        """Operations of the state when the cache last checked, to find unused gates."""
        self.timing: tuple[Callable[[int], None], Callable[[], int]] | None = None
        """Report and clock for the next publish decision; see `time_next_publish`."""
        self._sink = sink
        self._faults = faults
        ordered = sorted(checks, key=lambda check: (check.stage, check.takes))
        compiled = [
            GuardedCheck(
                check,
                reading(check, topic.full, policies, faults) if check.reads else check.call,
                policies.trial(check.policy),
            )
            for check in ordered
        ]
        self.reads = parts_read(checks, self.header_delay)
        """Parts of published messages that are read; if any, sessions set `Operation.contents`."""
        self._entries = tuple(
            tuple(entry for entry in compiled if kind in entry.check.kinds) for kind in OperationKind
        )
        for switch in {check.switch for check in ordered if check.switch is not None}:
            switch.join(self)
        self.recompute_checks()

    def policies_for(self, principal: str, client: str, group: str = "") -> EffectivePolicies:
        """The policies that operations of this principal, client and subscription obey."""
        return self.policies

    def record(self, op: Operation, decision: Decision, now_ns: int) -> None:
        """Record a decision that no policy made."""
        self._sink.decided(self, op, decision, now_ns)

    def asks(self, kind: OperationKind) -> bool:
        """True if any policy checks this kind of operation, now or when switched on."""
        return bool(self._entries[kind])

    def publish(self, op: Operation, now_ns: int) -> Decision | None:  # noqa: C901 - hot
        """Decide a publish operation; parameters and result as for `decide`."""
        # <hot> Runs for every publish. The size is compared, three checks (more than most topics have) are
        # called one by one, as a loop costs as much as a check, and `count_allowed` stands here inline. A
        # plain method, as CPython calls the one method of many gates faster than a closure for each.
        size = op.largest
        if size > self._largest:
            return self.judge(op, now_ns)
        index = 0
        decision = None
        try:
            if (call := self._first) is not None:
                decision = call(op, now_ns)
                if decision is None and (call := self._second) is not None:
                    index += 1
                    decision = call(op, now_ns)
                    if decision is None and (call := self._third) is not None:
                        index += 1
                        decision = call(op, now_ns)
        except CAUGHT as error:  # an exception of a plugin must not stop traffic
            return self._faulted(op, error, self._start + index, now_ns)
        if decision is not None:
            return self._settle(op, decision, self._start + index, now_ns)
        if self._has_more:
            return self.judge(op, now_ns, self._start + 3)
        if op.held_ns:  # only an operation that was held has a waiter here
            self.abandon(op, now_ns)
        state = self.state
        totals = op.totals
        if totals is None:
            totals = state.broker.clients.of(op)
        nbytes = op.bytes
        if op.messages == 1:
            state.size_counts[size.bit_length()] += 1
            state.alone_bytes += size
            state.alone_wire_bytes += nbytes
            totals.published_messages += 1
        else:
            state.batch_counts[nbytes.bit_length()] += 1
            state.batched_messages += op.messages
            state.batched_bytes += nbytes
            totals.published_messages += op.messages
        totals.published_bytes += nbytes
        self._sink.allowed(self, op, now_ns)
        return None

    def time_next_publish(self, report: Callable[[int], None], clock: Callable[[], int]) -> None:
        """Time the next publish decision, recording included.

        The gate has another class until then, so that all other decisions pay nothing for it.

        :param report: gets the time in ns, right after that decision.
        :param clock: gives the time in ns.
        """
        self.timing = report, clock
        self.__class__ = _TimedGate

    def dispatch(self, op: Operation, now_ns: int) -> Decision | None:
        """Decide a dispatch operation; parameters and result as for `decide`."""
        # <hot> As for publishing.
        index = -1
        decision = None
        try:
            for call in self._dispatch_calls:
                index += 1
                decision = call(op, now_ns)
                if decision is not None:
                    break
        except CAUGHT as error:  # an exception of a plugin must not stop traffic
            return self._faulted(op, error, index, now_ns)
        if decision is not None:
            return self._settle(op, decision, index, now_ns)
        if op.held_ns:
            self.abandon(op, now_ns)
        state = self.state
        totals = op.totals
        if totals is None:
            totals = state.broker.clients.of(op)
        messages = op.messages
        nbytes = op.bytes
        state.other_ops += 1
        state.dispatched_messages += messages
        state.dispatched_bytes += nbytes
        totals.dispatched_messages += messages
        totals.dispatched_bytes += nbytes
        self._sink.allowed(self, op, now_ns)
        return None

    def decide(self, op: Operation, now_ns: int) -> Decision | None:
        """Decide an operation of any kind; attachments that are admitted count from here on.

        :param op: the operation; the same object again if it was held.
        :param now_ns: monotonic time.
        :return: None to allow it, else the decision.
        """
        kind = op.kind
        if kind is OperationKind.PUBLISH:
            return self.publish(op, now_ns)
        if kind is OperationKind.DISPATCH:
            return self.dispatch(op, now_ns)
        if kind not in _ATTACHING:
            return self.judge(op, now_ns)
        with self.state.lock:
            decision = self.judge(op, now_ns)
            if decision is None or decision.action is Action.REWRITE:
                self.state.commit(op, now_ns, counted=not self.exempt)
        return decision

    def detach(self, op: Operation) -> None:
        """Release what an operation attached: its producer or its consumer, for its connection.

        With an operation of kind CREATE_SUBSCRIPTION, the subscription is removed unless it has consumers.
        """
        with self.state.lock:
            self.state.release(op)

    def abandon(self, op: Operation, now_ns: int) -> None:
        """End a hold: the operation proceeds, was refused, or lost its client; nothing is charged."""
        waiter = op.waiter
        if isinstance(waiter, Waiter):
            waiter.leave()
        op.waiter = None
        if op.held_ns:
            self.state.broker.held.end(op, now_ns, self.state.holds)

    def judge(
        self, op: Operation, now_ns: int, start: int = 0, rewrite: Decision | None = None
    ) -> Decision | None:
        """Run the checks from the `start`-th on, with the precautions that the compiled paths omit.

        :param op: the operation.
        :param now_ns: monotonic time.
        :param start: index of the first check to run.
        :param rewrite: what an earlier check wants rewritten if the others allow.
        """
        for entry in self._checks[op.kind][start:]:
            decision = self._ask(entry, op, now_ns)
            if decision is None or decision.action is Action.ALLOW:
                continue
            if _is_observed(entry, op):
                self._observe(op, decision, now_ns)
            elif decision.action is Action.REWRITE:
                rewrite = decision if rewrite is None else joined(rewrite, decision)
            else:
                return decision if isinstance(decision, Asking) else self._refuse(op, decision, now_ns)
        self._count(op, now_ns)
        if rewrite is not None:
            return self._record(op, rewrite, now_ns)
        self._sink.allowed(self, op, now_ns)
        return None

    def _settle(self, op: Operation, decision: Decision, index: int, now_ns: int) -> Decision | None:
        """Complete the first decision of a hot path, by the check at `index`."""
        if wrong := _misfit(decision, op):
            return self._faulted(op, TypeError(wrong), index, now_ns)
        if decision.action is Action.ALLOW:
            return self.judge(op, now_ns, index + 1)
        if _is_observed(self._checks[op.kind][index], op):
            self._observe(op, decision, now_ns)
            return self.judge(op, now_ns, index + 1)
        if decision.action is Action.REWRITE:
            return self.judge(op, now_ns, index + 1, decision)
        return self._refuse(op, decision, now_ns)

    def _faulted(self, op: Operation, error: BaseException, index: int, now_ns: int) -> Decision | None:
        """Handle an exception on a hot path, in the check at `index`."""
        decision = self._fault(self._checks[op.kind][index], error, now_ns)
        self.recompute_checks()
        if decision is not None:
            return self._settle(op, decision, index, now_ns)
        return self.judge(op, now_ns, index + 1)

    def _refuse(self, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Record a decision that stops an operation; a held one is recorded when it is first held."""
        state = self.state
        totals = op.totals or state.broker.clients.of(op)
        if decision.action is not Action.DELAY:
            self.abandon(op, now_ns)
            totals.refused += 1
            if decision.action is Action.DROP:
                state.dropped += 1
            else:
                state.rejected += 1
            return self._record(op, decision, now_ns)
        waiter = op.waiter
        if not isinstance(waiter, Waiter):
            op.waiter = waiter = Waiter()
        if waiter.decision is not None:
            decision = replace(decision, id=waiter.decision.id, policy_version=self.version)
        else:
            state.delayed += 1
            totals.delayed += 1
            if not op.held_ns:
                state.broker.held.begin(op, now_ns, totals)
            decision = waiter.decision = self._record(op, decision, now_ns)
        if waiter.other is None and waiter.waits and waiter.asked_ns == now_ns:
            waiter.saves = waiter.blocked = False  # as `mark_held` would do, without the call
        else:
            waiter.mark_held(now_ns)
        return decision

    def recompute_checks(self) -> None:
        """Choose the checks to call: none that is switched off, and guarded calls for those that have raised.

        Only between two decisions, which keep the index of their current check.
        """
        self._checks = tuple(
            tuple(entry for entry in entries if entry.check.switch is None or entry.check.switch.on)
            for entries in self._entries
        )
        publish, dispatch = (
            [partial(self._ask, entry) if entry.suspect else entry.call for entry in self._checks[kind]]
            for kind in (OperationKind.PUBLISH, OperationKind.DISPATCH)
        )
        by_size = self._checks[OperationKind.PUBLISH][0].check.largest if publish else None
        self._start = 0 if by_size is None else 1
        self._largest = sys.maxsize if by_size is None else by_size
        self._first, self._second, self._third = (*publish[self._start :], None, None, None)[:3]
        self._has_more = len(publish) > self._start + 3
        self._dispatch_calls = tuple(dispatch)

    def _ask(self, entry: GuardedCheck, op: Operation, now_ns: int) -> Decision | None:
        if entry.is_skipped(now_ns):
            return None if entry.check.fail_open else self._closed(entry.check)
        try:
            decision = entry.call(op, now_ns)
            if decision is not None and (wrong := _misfit(decision, op)):
                raise TypeError(wrong)
        except CAUGHT as error:  # an exception of a plugin must not stop traffic
            return self._fault(entry, error, now_ns)
        entry.faults = 0
        return decision

    def _fault(self, entry: GuardedCheck, error: BaseException, now_ns: int) -> Decision | None:
        check = entry.check
        opened = entry.failed(now_ns)
        plugin = plugin_of(check)
        self._faults.add(Fault(plugin, check.policy, self.topic.full, error_text(error), opened))
        return None if check.fail_open else self._closed(check)

    def _closed(self, check: Check) -> Decision:
        text = texts.check_failed(check.policy, self.topic.full)
        reason = Reason(check.policy, Outcome.PRECONDITION, text, level=self.policies.level(check.policy))
        return Decision(Action.REJECT, (reason,))

    def _observe(self, op: Operation, decision: Decision, now_ns: int) -> None:
        if isinstance(decision, Asking) or (isinstance(op.waiter, Waiter) and op.waiter.decision is not None):
            return  # undecided; or held by another policy and decided again: it was recorded the first time
        self.state.observed += 1
        self._record(op, replace(decision, observed=True), now_ns)

    def _record(self, op: Operation, decision: Decision, now_ns: int) -> Decision:
        violations = self.state.violations
        action = f"would_{decision.action}" if decision.observed else str(decision.action)
        for reason in decision.reasons:
            key = (reason.policy, action, str(reason.outcome))
            violations[key] = violations.get(key, 0) + 1
        return self._sink.decided(self, op, decision, now_ns)

    def _count(self, op: Operation, now_ns: int) -> None:
        self.state.count_allowed(op)
        if op.waiter is not None or op.held_ns:
            self.abandon(op, now_ns)


class _TimedGate(Gate):
    """A gate for one publish decision, which it times."""

    __slots__ = ()

    def publish(self, op: Operation, now_ns: int) -> Decision | None:
        self.__class__ = Gate  # type: ignore[assignment]  # back before it decides, so that it cannot nest
        timing, self.timing = self.timing, None
        if timing is None:
            return Gate.publish(self, op, now_ns)
        report, clock = timing
        began = clock()
        decision = Gate.publish(self, op, now_ns)
        report(clock() - began)
        return decision


def allowed(decision: Decision | None) -> Decision | None:
    """Turn a decision that lets an operation pass as it is into None."""
    passes = decision is None or (decision.action is Action.REWRITE and decision.headers is UNCHANGED)
    return None if passes else decision


def _is_observed(entry: GuardedCheck, op: Operation) -> bool:
    """Whether what a check decides about an operation is only recorded."""
    return entry.mode is not None and not entry.mode.applies_to(entry.check.policy, op)


def _misfit(decision: object, op: Operation) -> str:
    """Why what a check gave is no decision about its operation; empty if it is one."""
    if not isinstance(decision, Decision):
        return f"a check gave {shown(decision)}, expected None or a Decision"
    action = decision.action
    if not (decision.reasons or action is Action.ALLOW) or not {Reason}.issuperset(
        map(type, decision.reasons)
    ):
        return f"a decision to {action} has reasons {shown(decision.reasons)}, expected at least one Reason"
    if action is Action.DELAY and not decision.delay_ns:  # a session would ask again in a busy loop
        return "a decision to delay has delay_ns 0, expected at least 1"
    if action is Action.DROP and op.reliable:
        return "a decision drops an operation that its client was promised; only unreliable ones may be"
    return (
        "a decision says that it is observed, which the policy's 'mode' alone may say"
        if decision.observed
        else ""
    )
