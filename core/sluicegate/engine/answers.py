"""Validates what plugins return to the engine; all later code relies on it.

A check that gives `True`, a coroutine or a delay of NaN would stop every client of its topic far from the
plugin, in a codec or in the decision log. Here it raises, so that the fault is counted under the plugin's
name and the check fails open or closed as it says. Built-in checks are not validated here, but tested.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from inspect import iscoroutine, iscoroutinefunction
from reprlib import Repr
from typing import Any, TypeVar

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.quota import Quota
from sluicegate.engine.switch import Switch
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason

CAUGHT = BaseException
"""Exceptions of a plugin's function that do not end the gateway: all.

`CancelledError` or `KeyboardInterrupt` would end the event loop or a task of others, and nothing cancels a
function that does not wait. A gateway handles Ctrl-C as a signal; in an embedded engine, one that comes
within a plugin's call counts as the plugin's.
"""

_LONGEST_TEXT = 4_096
"""Most characters of a reason: client libraries and protocols bound the length of errors."""
_LONGEST_ERROR = 500
_MOST_CHECKS = 1_000
_LONGEST_NAME = 250
_MOST_NS = 1 << 62
"""Nanoseconds that clocks, timers and the decision log can hold."""
_MOST_MS = 36_525 * 24 * 3600 * 1000
"""A hundred years, as for delays of the file."""
_MOST = 1e15
"""Messages or bytes; above this a bucket misses single ones."""
_CLOCKS = ("publish_time", "receive_time")

Each = TypeVar("Each")

_repr = Repr()
_repr.maxother = _repr.maxstring = 80


class InvalidAnswerError(Exception):
    """A plugin returned an unusable value.

    :param text: the value, and what was expected.
    :param usable: the part of it that is usable.
    """

    def __init__(self, text: str, usable: Sequence[Any] = ()) -> None:
        super().__init__(text)
        self.usable = usable


def shown(value: object) -> str:
    """A short text for a value, even if its own representation fails; a coroutine is closed."""
    if iscoroutine(value):
        value.close()
        return "a coroutine (the function must not be async)"
    try:
        return _repr.repr(value)
    except CAUGHT:  # it is a plugin's
        return f"an object of type {type(value).__name__}"


def error_text(error: BaseException) -> str:
    """An exception of a plugin, as `TypeName: message`."""
    try:
        text = str(error)
    except CAUGHT:  # it is a plugin's
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text[:_LONGEST_ERROR]}"


def several(answer: object, hook: str, kind: type[Each]) -> list[Each]:
    """The list that a hook returned; None counts as an empty one.

    :param hook: its name, for the error.
    :param kind: what each of them must be.
    :raises InvalidAnswerError: if it is no list, or has an item of another kind.
    """
    if answer is None:
        return []
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise InvalidAnswerError(f"{hook} gave {shown(answer)}, expected a list of {kind.__name__} objects")
    found: list[Each] = []
    wrong = ""
    for each in answer:
        if len(found) >= _MOST_CHECKS:
            raise InvalidAnswerError(f"{hook} gave more than {_MOST_CHECKS} objects")
        if isinstance(each, kind):
            found.append(each)
        else:
            wrong = wrong or f"{hook} gave {shown(each)} in its list, expected {kind.__name__} objects"
    if wrong:
        raise InvalidAnswerError(wrong, found)
    return found


def usable_checks(answer: object) -> Sequence[Check]:
    """The checks of a plugin's `sluicegate_policy_checks`; each raises if its answer is unusable.

    :raises InvalidAnswerError: if any of them is wrong. Its `usable` then has the valid checks,
        and a refusing check for each wrong one that fails closed.
    """
    try:
        given, problem = several(answer, "sluicegate_policy_checks", Check), ""
    except InvalidAnswerError as error:
        given, problem = list(error.usable), str(error)
    found: list[Check] = []
    for check in given:
        wrong = wrong_with_check(check)
        if not wrong:
            found.append(_answering(check))
            continue
        if check.fail_open is False:
            found.append(_closed(check, wrong))
        problem = problem or wrong
    if problem:
        raise InvalidAnswerError(problem, found)
    return found


def wrong_with_check(check: Any) -> str:
    """What is wrong with a check; empty if it can be compiled into a gate."""
    name = f"check {shown(check.policy)}"
    if not is_name(check.policy):
        return f"{name} has no name of a policy"
    if not callable(check.call) or iscoroutinefunction(check.call):
        return f"{name} has call {shown(check.call)}, expected a function that is not async"
    if not (isinstance(check.kinds, tuple | list | set | frozenset) and _kinds(check) == list(check.kinds)):
        return f"{name} has kinds {shown(check.kinds)}, expected a tuple of OperationKind"
    if not isinstance(check.stage, Stage):
        return f"{name} has stage {shown(check.stage)}, expected a Stage"
    if not (isinstance(check.fail_open, bool) and isinstance(check.takes, bool)):
        return f"{name} has fail_open {shown(check.fail_open)} and takes {shown(check.takes)}, expected bools"
    if check.largest is not None and not _is_whole(check.largest, _MOST_NS):
        return f"{name} has largest {shown(check.largest)}, expected None or bytes as an int of 0 or more"
    if check.switch is not None and not isinstance(check.switch, Switch):
        return f"{name} has switch {shown(check.switch)}, expected None or a Switch"
    return "" if isinstance(check.plugin, str) else f"{name} has plugin {shown(check.plugin)}, expected text"


def _answering(check: Check) -> Check:
    """A check whose answers are validated before a gate uses them."""
    ask = check.call

    def call(op: Operation, now_ns: int) -> Decision | None:
        # <hot> for every operation that this check is asked about
        decision = ask(op, now_ns)
        if decision is not None and (wrong := wrong_with_decision(decision, op)):
            raise InvalidAnswerError(wrong)
        return decision

    return replace(check, call=call)


def _kinds(check: Any) -> list[OperationKind]:
    return [kind for kind in check.kinds if isinstance(kind, OperationKind)]


def _closed(check: Any, wrong: str) -> Check:
    """A replacement for an unusable check: each call fails, and so refuses."""

    def call(op: Operation, now_ns: int) -> Decision | None:
        raise InvalidAnswerError(wrong)

    kinds = _kinds(check) if isinstance(check.kinds, Iterable) else list(OperationKind)
    policy = check.policy if is_name(check.policy) else "unnamed"
    plugin = check.plugin if isinstance(check.plugin, str) else ""
    return Check(policy, tuple(kinds) or tuple(OperationKind), call, fail_open=False, plugin=plugin)


def wrong_with_decision(decision: object, op: Operation) -> str:
    """What is wrong with a decision of a check; empty if it is valid.

    :param op: the operation that it decides.
    """
    try:
        return _wrong_with_decision(decision, op)
    except CAUGHT as error:  # numbers and texts of a plugin's own types may raise anything
        return f"a check gave a Decision that cannot be looked at: {error_text(error)}"


def _wrong_with_decision(decision: object, op: Operation) -> str:
    if not isinstance(decision, Decision):
        return f"a check gave {shown(decision)}, expected None or a Decision"
    answer: Any = decision
    action = answer.action
    if not isinstance(action, Action):
        return f"a decision has action {shown(action)}, expected an Action"
    if action is Action.DROP and op.reliable:
        return "a decision drops an operation that its client was promised; only unreliable ones may be"
    delay_ns = answer.delay_ns
    least_ns = int(action is Action.DELAY)
    if type(delay_ns) is not int or not least_ns <= delay_ns <= _MOST_NS:
        expected = f"expected an int from {least_ns} to {_MOST_NS}"
        return f"a decision to {action} has delay_ns {shown(delay_ns)}, {expected}"
    factor = answer.factor
    if not isinstance(factor, float | int) or not 0 <= factor <= 1:
        return f"a decision has factor {shown(factor)}, expected 0.0 to 1.0"
    if answer.observed is not False:
        return "a decision says that it is observed, which the policy's 'mode' alone may say"
    reasons = answer.reasons
    if not isinstance(reasons, tuple | list) or not (reasons or action is Action.ALLOW):
        return f"a decision to {action} has reasons {shown(reasons)}, expected a tuple of at least one Reason"
    for reason in reasons:
        if wrong := _wrong_with_reason(reason):
            return wrong
    return ""


def _wrong_with_reason(given: object) -> str:
    if not isinstance(given, Reason):
        return f"a decision has reason {shown(given)}, expected a Reason"
    reason: Any = given
    if not is_name(reason.policy):
        return f"a reason has policy {shown(reason.policy)}, expected a policy's name"
    if not isinstance(reason.outcome, Outcome):
        return f"a reason has outcome {shown(reason.outcome)}, expected an Outcome"
    if not _is_text(reason.text, _LONGEST_TEXT):
        return (
            f"a reason has text {shown(reason.text)}, expected at most {_LONGEST_TEXT} characters of Unicode"
        )
    for value in (reason.current, reason.limit):
        if not isinstance(value, int | float) or not -_MOST_NS <= value <= _MOST_NS:
            return f"a reason has {shown(value)} for current value or limit, expected a finite number"
    if not _is_text(reason.level, _LONGEST_NAME):
        return f"a reason has level {shown(reason.level)}, expected text"
    return ""


def is_name(value: object) -> bool:
    """Whether something can name a policy or a factor in metrics and decisions."""
    return bool(value) and _is_text(value, _LONGEST_NAME)


def _is_text(value: object, longest: int) -> bool:
    if not isinstance(value, str) or len(value) > longest:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a character, which no protocol can carry
        return False
    return True


def usable_rule(answer: object) -> DelayRule | None:
    """The value that `sluicegate_delay_rule` returned.

    :raises InvalidAnswerError: if it is neither None nor a rule that can be kept.
    """
    if answer is None:
        return None
    if not isinstance(answer, DelayRule):
        problem = f"sluicegate_delay_rule gave {shown(answer)}, expected None or a DelayRule"
        raise InvalidAnswerError(problem)
    for field in ("fixed_ms", "max_ahead_ms", "max_ms", "tick_ms", "max_behind_ms"):
        value = getattr(answer, field)
        if not _is_whole(value, _MOST_MS):
            raise InvalidAnswerError(f"a DelayRule has {field} {shown(value)}, expected an int of 0 or more")
    if answer.clock not in _CLOCKS:
        raise InvalidAnswerError(f"a DelayRule has clock {shown(answer.clock)}, expected one of {_CLOCKS}")
    return answer


def usable_quota(answer: object) -> Quota | None:
    """The value that `sluicegate_quota` returned.

    :raises InvalidAnswerError: if it is neither None nor a quota that a bucket can have.
    """
    if answer is None:
        return None
    if not isinstance(answer, Quota):
        raise InvalidAnswerError(f"sluicegate_quota gave {shown(answer)}, expected None or a Quota")
    rate: Any
    for rate in (answer.messages_per_s, answer.bytes_per_s):
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= _MOST:
            raise InvalidAnswerError(f"a Quota has rate {shown(rate)}, expected a finite number of 0 or more")
    if not _is_text(answer.share, _LONGEST_NAME * 2):
        raise InvalidAnswerError(f"a Quota has share {shown(answer.share)}, expected text")
    return answer


def _is_whole(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
