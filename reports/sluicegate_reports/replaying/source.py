"""One client's operations of one kind on one topic, decided by the candidate's gate."""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_reports.registry import system
from sluicegate_reports.replaying.holding import Holding, Recorded
from sluicegate_reports.replaying.tally import Key, Outcome, Tally, Totals

_HANDLED = Decision(Action.ALLOW, ())
"""Result of `ask` for an operation that was handled already."""

_Asked: TypeAlias = tuple[int, int, int, int, Action]
"""Time of the first attempt (ns), messages, bytes, largest message, recorded action."""
Ask: TypeAlias = Callable[[Operation, int], Decision | None]


class Source:
    """Replays one client's operations of one kind on one topic against the gate of the candidate policies.

    Operations keep their order: while one is held, those after it wait.

    :param key: where its outcomes are counted.
    :param op: identifies the client; reused for each operation.
    :param gate: the candidate's.
    :param max_hold_ns: longest time that one operation is held.
    """

    __slots__ = (
        "_blame",
        "_first_ns",
        "_held",
        "_held_op",
        "_holding",
        "_last_ns",
        "_outcomes",
        "_plain",
        "_queue",
        "_recorded",
        "ask",
        "gate",
        "key",
        "op",
        "refused",
        "streams",
        "tally",
        "totals",
    )

    def __init__(
        self, key: Key, op: Operation, gate: Gate, max_hold_ns: int, holding: Holding, tally: Tally
    ) -> None:
        self.key = key
        self.op = op
        self.tally = tally
        self.refused = 0
        """Operations that the candidate refused."""
        self.totals: Totals = tally.totals_of(key)
        self.gate = gate
        self._holding = holding
        lasting = op.kind is OperationKind.DISPATCH or system(key[0]).waits_long
        self._last_ns = 1 << 62 if lasting else max_hold_ns
        self.streams = op.kind in (OperationKind.PUBLISH, OperationKind.DISPATCH)
        """Whether it carries messages; anything else attaches, or acknowledges."""
        plain = {OperationKind.PUBLISH: gate.publish, OperationKind.DISPATCH: gate.dispatch}
        self._plain: Ask = plain.get(op.kind, gate.decide)
        self._outcomes: dict[str, Outcome] = {}
        self._queue: deque[_Asked] = deque()
        self._recorded = Recorded()
        self._held: _Asked | None = None
        self._held_op = op
        self._first_ns = 0
        self._blame: Outcome | None = None
        self.ask: Ask = self._plain
        """Decides `op`, which the log records as allowed: None if it passes, otherwise see `follow`."""

    def follow(self, decision: Decision, now_ns: int) -> int:
        """Handle the result of `ask`.

        :return: when a held operation is due.
        """
        if decision is not _HANDLED:
            op = self.op
            asked = (now_ns, op.messages, op.bytes, op.largest, Action.ALLOW)
            self._decided(op, decision, asked, now_ns)
            self._choose_ask()
        return self._holding.due_ns

    def offer(
        self, now_ns: int, messages: int, nbytes: int, largest: int, was: Action = Action.ALLOW
    ) -> None:
        """Replay an operation.

        :param was: the recorded action.
        """
        if was is Action.DELAY:
            self._recorded.add(messages, nbytes)
        asked = (now_ns, messages, nbytes, largest, was)
        if self._held is None:
            self._try(asked, now_ns)
        else:
            self._queue.append(asked)
        self._choose_ask()

    def wake(self, now_ns: int) -> None:
        """Decide the held operation again, then those behind it."""
        held, op = self._held, self._held_op
        if held is None:
            return
        decision = self.gate.decide(op, now_ns)
        if decision is not None and decision.action is Action.DELAY:
            left_ns = self._first_ns + self._last_ns - now_ns
            if left_ns > 0:
                self._holding.wait(now_ns + max(1, min(decision.delay_ns, left_ns)), self)
                return
            self.gate.abandon(op, now_ns)
            self._refused(decision, held)
        elif decision is not None and decision.action is not Action.REWRITE:
            self._refused(decision, held)
        else:
            self._passed_late(held, now_ns)
        self._held = None
        while self._queue and self._held is None:
            self._try(self._queue.popleft(), now_ns)
        self._choose_ask()

    def again(self, op: Operation, now_ns: int) -> bool:
        """Replay an operation that the log records as refused, if nothing is held: most of such rows.

        :return: False if it must go through `offer` instead.
        """
        if self.ask is not self._plain:
            return False
        decision = self._plain(op, now_ns)
        if decision is None:
            self.totals.no_longer_refused += 1
        elif decision.action is Action.REJECT:
            self._outcome(decision).refused += 1
            self.refused += 1
        else:
            self._decided(op, decision, (now_ns, op.messages, op.bytes, op.largest, Action.REJECT), now_ns)
            self._choose_ask()
        return True

    def _try(self, asked: _Asked, now_ns: int) -> None:
        op = self.op
        _, op.messages, op.bytes, op.largest, was = asked
        op.reliable = was is not Action.DROP
        decision = self._plain(op, now_ns)
        op.reliable = True
        if decision is not None and decision.action is not Action.REWRITE:
            self._decided(op, decision, asked, now_ns)
        elif now_ns > asked[0]:
            self._passed_late(asked, now_ns)
        else:
            self._passed(was)

    def _decided(self, op: Operation, decision: Decision, asked: _Asked, now_ns: int) -> None:
        if decision.action is Action.REWRITE:
            return
        if decision.action is not Action.DELAY:
            self._refused(decision, asked)
            return
        self._held, self._held_op, self._first_ns = asked, op, now_ns
        self.op = Operation(
            op.kind, op.topic, op.principal, op.client, op.producer, op.subscription, op.consumer
        )
        self._blame = self._outcome(decision)
        self._holding.wait(now_ns + max(1, min(decision.delay_ns, self._last_ns)), self)

    def _refused(self, decision: Decision, asked: _Asked) -> None:
        outcome = self._outcome(decision)
        outcome.refused += 1
        self.refused += 1
        was = asked[4]
        if was is Action.ALLOW or was is Action.DELAY:
            outcome.newly_refused += 1

    def _passed(self, was: Action) -> None:
        if was is Action.DELAY:
            self.totals.no_longer_delayed += 1
        elif was is not Action.ALLOW:
            self.totals.no_longer_refused += 1

    def _passed_late(self, asked: _Asked, now_ns: int) -> None:
        outcome, was, late_ns = self._blame, asked[4], now_ns - asked[0]
        if outcome is None:  # nothing is late without something that was held before
            return
        outcome.delayed += 1
        outcome.delay_ns += late_ns
        outcome.longest_delay_ns = max(outcome.longest_delay_ns, late_ns)
        if was is Action.ALLOW:
            outcome.newly_delayed += 1
        elif was is not Action.DELAY:
            self.totals.no_longer_refused += 1

    def _outcome(self, decision: Decision) -> Outcome:
        policy = decision.reasons[0].policy if decision.reasons else "unknown"
        outcome = self._outcomes.get(policy)
        if outcome is None:
            outcome = self._outcomes[policy] = self.tally.outcome(self.key, policy)
        outcome.worst(decision)
        return outcome

    def _choose_ask(self) -> None:
        """Send operations straight to the gate while nothing is held."""
        self.ask = self._careful if self._held is not None or self._recorded else self._plain

    def _careful(self, op: Operation, now_ns: int) -> Decision:
        """Decide like a gate while something is held here, or is recorded as held."""
        if self._recorded.passes(op.messages, op.bytes):
            # It was decided when it was held, which is a separate row.
            self.totals.operations -= 1
            self.totals.messages -= op.messages
            self._choose_ask()
        else:
            self.offer(now_ns, op.messages, op.bytes, op.largest)
        return _HANDLED
