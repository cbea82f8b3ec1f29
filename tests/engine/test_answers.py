"""Invalid results of plugins: each message shows the value and what was expected, and limits are exact."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.engine.answers import (
    InvalidAnswerError,
    error_text,
    is_name,
    several,
    shown,
    usable_checks,
    usable_quota,
    usable_rule,
    wrong_with_check,
    wrong_with_decision,
)
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.quota import Quota
from sluicegate.engine.switch import Switch
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason

MOST_NS = 1 << 62
MOST_MS = 36_525 * 24 * 3600 * 1000
KINDS = (OperationKind.PUBLISH, OperationKind.DISPATCH)
REASON = Reason("mine", Outcome.INVALID, "no")
PUBLISH = Operation(OperationKind.PUBLISH, "t", reliable=False)


def allow(op: Operation, now_ns: int) -> Decision | None:
    return None


async def coroutine(*arguments: object) -> None:
    """What an author gives who thinks that checks may wait."""


class Mute:
    """Has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def check(**fields: Any) -> Check:
    return Check(**{"policy": "mine", "kinds": KINDS, "call": allow, **fields})


def reject(**fields: Any) -> Decision:
    return replace(Decision(Action.REJECT, (REASON,)), **fields)


def because(**fields: Any) -> Decision:
    return reject(reasons=(replace(REASON, **fields),))


def rule(**fields: Any) -> DelayRule:
    return replace(DelayRule(1), **fields)


def problem(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidAnswerError) as raised:
        call()
    return str(raised.value)


def test_values_are_shown_shortly() -> None:
    assert shown("x" * 100) == f"'{'x' * 37}...{'x' * 38}'"
    assert "Mute" in shown(Mute())
    assert "int" in shown(10**5_000)  # more digits than Python prints
    assert shown(coroutine()) == "a coroutine (the function must not be async)"


def test_exceptions_are_shown_by_type_and_text() -> None:
    assert error_text(LookupError("x" * 501)) == f"LookupError: {'x' * 500}"
    assert error_text(MuteError()) == "MuteError: (its text cannot be had)"


def test_a_list_is_taken_as_it_is() -> None:
    one, other = check(), check()
    assert several(None, "hook", Check) == []
    assert several((one, other), "hook", Check) == [one, other]
    assert len(several([one] * 1_000, "hook", Check)) == 1_000


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("checks", "hook gave 'checks', expected a list of Check objects"),
        (b"checks", "hook gave b'checks', expected a list of Check objects"),
        (5, "hook gave 5, expected a list of Check objects"),
        ([check()] * 1_001, "hook gave more than 1000 objects"),
        ([1, check(), 2], "hook gave 1 in its list, expected Check objects"),
    ],
    ids=range(5),
)
def test_what_is_no_list_of_checks_is_named(answer: object, text: str) -> None:
    assert problem(lambda: several(answer, "hook", Check)) == text


def test_the_usable_part_of_a_list_is_kept() -> None:
    good, more = check(), check(policy="more")
    with pytest.raises(InvalidAnswerError) as raised:
        several([good, None, more], "hook", Check)
    assert raised.value.usable == [good, more]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"policy": ""}, "check '' has no name of a policy"),
        ({"policy": "x" * 251}, f"check {shown('x' * 251)} has no name of a policy"),
        ({"call": 5}, "check 'mine' has call 5, expected a function that is not async"),
        ({"kinds": None}, "check 'mine' has kinds None, expected a tuple of OperationKind"),
        ({"kinds": (4,)}, "check 'mine' has kinds (4,), expected a tuple of OperationKind"),
        ({"kinds": dict.fromkeys(KINDS)}, f"has kinds {shown(dict.fromkeys(KINDS))}, expected a tuple"),
        ({"stage": 2}, "check 'mine' has stage 2, expected a Stage"),
        ({"fail_open": 1}, "check 'mine' has fail_open 1 and takes False, expected bools"),
        ({"takes": 1}, "check 'mine' has fail_open True and takes 1, expected bools"),
        (
            {"largest": -1},
            "check 'mine' has largest -1, expected None or bytes as an int of 0 or more",
        ),
        ({"largest": MOST_NS + 1}, f"check 'mine' has largest {MOST_NS + 1}, expected None or bytes"),
        ({"switch": True}, "check 'mine' has switch True, expected None or a Switch"),
        ({"plugin": None}, "check 'mine' has plugin None, expected text"),
    ],
    ids=range(13),
)
def test_an_unusable_check_is_named_with_its_value(fields: dict[str, Any], text: str) -> None:
    assert text in wrong_with_check(check(**fields))


def test_an_async_check_is_unusable() -> None:
    assert "expected a function that is not async" in wrong_with_check(check(call=coroutine))


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": "x" * 250}, {"kinds": list(KINDS)}, {"kinds": frozenset(KINDS)}, {"kinds": ()},
        {"stage": Stage.SIZE}, {"fail_open": False}, {"takes": True}, {"largest": 0}, {"largest": MOST_NS},
        {"switch": Switch()}, {"plugin": "acme"},
    ],
    ids=range(11),
)  # fmt: skip
def test_values_at_the_limits_are_usable_in_checks(fields: dict[str, Any]) -> None:
    assert wrong_with_check(check(**fields)) == ""


def test_valid_checks_stay_beside_unusable_ones_and_the_first_fault_is_named() -> None:
    good, last = check(policy="good"), check(policy="last")
    open_, closed = check(policy="open", stage=2), check(policy="closed", largest=-1, fail_open=False)
    with pytest.raises(InvalidAnswerError) as raised:
        usable_checks([good, open_, closed, last])
    assert str(raised.value).startswith("check 'open' has stage 2")
    assert [found.policy for found in raised.value.usable] == ["good", "closed", "last"]


def test_what_is_no_check_is_named_before_unusable_ones() -> None:
    with pytest.raises(InvalidAnswerError) as raised:
        usable_checks([None, check(stage=2), check(policy="good")])
    assert str(raised.value) == "sluicegate_policy_checks gave None in its list, expected Check objects"
    assert [found.policy for found in raised.value.usable] == ["good"]


@pytest.mark.parametrize(
    ("fields", "policy", "kinds", "plugin"),
    [
        ({"stage": 2, "plugin": "acme"}, "mine", KINDS, "acme"),
        ({"policy": 5}, "unnamed", KINDS, ""),
        ({"plugin": None}, "mine", KINDS, ""),
        ({"kinds": None}, "mine", tuple(OperationKind), ""),
        ({"kinds": (4,)}, "mine", tuple(OperationKind), ""),
        ({"kinds": (4, OperationKind.PUBLISH)}, "mine", (OperationKind.PUBLISH,), ""),
    ],
    ids=range(6),
)
def test_an_unusable_check_that_fails_closed_refuses(
    fields: dict[str, Any], policy: str, kinds: tuple[OperationKind, ...], plugin: str
) -> None:
    with pytest.raises(InvalidAnswerError) as raised:
        usable_checks([check(fail_open=False, **fields)])
    (closed,) = raised.value.usable
    assert (closed.policy, closed.kinds, closed.plugin, closed.fail_open) == (policy, kinds, plugin, False)
    assert problem(lambda: closed.call(PUBLISH, 0)) == str(raised.value)


def test_a_valid_check_is_asked_about_the_operation_and_the_time() -> None:
    asked = []

    def call(op: Operation, now_ns: int) -> Decision | None:
        asked.append((op, now_ns))
        return reject() if now_ns else None

    (usable,) = usable_checks([check(call=call)])
    assert usable.call(PUBLISH, 0) is None
    assert usable.call(PUBLISH, 7) == reject()
    assert asked == [(PUBLISH, 0), (PUBLISH, 7)]


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        (True, "a check gave True, expected None or a Decision"),
        (reject(action="reject"), "a decision has action 'reject', expected an Action"),
        (reject(delay_ns=-1), f"a decision to reject has delay_ns -1, expected an int from 0 to {MOST_NS}"),
        (
            reject(action=Action.DELAY),
            f"a decision to delay has delay_ns 0, expected an int from 1 to {MOST_NS}",
        ),
        (
            reject(action=Action.DELAY, delay_ns=MOST_NS + 1),
            f"a decision to delay has delay_ns {MOST_NS + 1}, expected an int from 1 to {MOST_NS}",
        ),
        (reject(factor=-0.1), "a decision has factor -0.1, expected 0.0 to 1.0"),
        (reject(factor=1.1), "a decision has factor 1.1, expected 0.0 to 1.0"),
        (reject(factor="1"), "a decision has factor '1', expected 0.0 to 1.0"),
        (
            reject(observed=True),
            "a decision says that it is observed, which the policy's 'mode' alone may say",
        ),
        (
            reject(reasons=()),
            "a decision to reject has reasons (), expected a tuple of at least one Reason",
        ),
        (
            Decision(Action.ALLOW, None),  # type: ignore[arg-type]
            "a decision to allow has reasons None, expected a tuple of at least one Reason",
        ),
        (reject(reasons=(REASON, 5)), "a decision has reason 5, expected a Reason"),
        (because(policy=""), "a reason has policy '', expected a policy's name"),
        (because(outcome="no"), "a reason has outcome 'no', expected an Outcome"),
        (
            because(text="x" * 4_097),
            f"a reason has text {shown('x' * 4_097)}, expected at most 4096 characters of Unicode",
        ),
        (
            because(current=MOST_NS * 2),
            f"a reason has {MOST_NS * 2} for current value or limit, expected a finite number",
        ),
        (because(limit="5"), "a reason has '5' for current value or limit, expected a finite number"),
        (because(limit=-MOST_NS - 1), f"a reason has {-MOST_NS - 1} for current value or limit, expected"),
        (because(limit=MOST_NS + 1), f"a reason has {MOST_NS + 1} for current value or limit, expected"),
        (because(level="x" * 251), f"a reason has level {shown('x' * 251)}, expected text"),
    ],
    ids=range(20),
)
def test_an_unusable_decision_is_named_with_its_value(decision: object, text: str) -> None:
    assert wrong_with_decision(decision, PUBLISH).startswith(text)


@pytest.mark.parametrize(
    "decision",
    [
        Decision(Action.ALLOW, ()), Decision(Action.REWRITE, (REASON,)), reject(reasons=[REASON, REASON]),
        reject(delay_ns=1), reject(action=Action.DELAY, delay_ns=1),
        reject(action=Action.DELAY, delay_ns=MOST_NS), reject(factor=0), reject(factor=1),
        because(policy="x" * 250), because(text="x" * 4_096), because(text="\u20ac"), because(text=""),
        because(current=-MOST_NS), because(limit=MOST_NS), because(level="x" * 250),
        reject(action=Action.DROP),
    ],
    ids=range(16),
)  # fmt: skip
def test_values_at_the_limits_are_usable_in_decisions(decision: Decision) -> None:
    assert wrong_with_decision(decision, PUBLISH) == ""


def test_what_a_client_was_promised_is_not_dropped() -> None:
    reliable = replace(PUBLISH, reliable=True)
    assert wrong_with_decision(reject(action=Action.DROP), reliable) == (
        "a decision drops an operation that its client was promised; only unreliable ones may be"
    )


def test_a_decision_without_fields_is_unusable() -> None:
    found = wrong_with_decision(object.__new__(Decision), PUBLISH)
    assert found.startswith("a check gave a Decision that cannot be looked at: AttributeError: ")


@pytest.mark.parametrize("value", ["", None, 5, b"name", "x" * 251, "\ud800"])
def test_what_cannot_be_a_name_of_a_policy(value: object) -> None:
    assert is_name(value) is False


@pytest.mark.parametrize("value", ["n", "x" * 250, "\u20ac"])
def test_what_can_be_a_name_of_a_policy(value: object) -> None:
    assert is_name(value) is True


FIELDS = ("fixed_ms", "max_ahead_ms", "max_ms", "tick_ms", "max_behind_ms")


@pytest.mark.parametrize("field", FIELDS)
def test_times_of_a_delay_rule_are_bounded(field: str) -> None:
    for usable in (0, MOST_MS):
        assert usable_rule(rule(**{field: usable})) == rule(**{field: usable})
    for wrong in (-1, MOST_MS + 1, 1.0, True):
        given = rule(**{field: wrong})
        with pytest.raises(InvalidAnswerError) as raised:
            usable_rule(given)
        assert str(raised.value) == f"a DelayRule has {field} {wrong!r}, expected an int of 0 or more"


def test_a_delay_rule_has_one_of_two_clocks() -> None:
    assert usable_rule(None) is None
    assert usable_rule(rule(clock="receive_time")) == rule(clock="receive_time")
    assert problem(lambda: usable_rule(rule(clock="now"))) == (
        "a DelayRule has clock 'now', expected one of ('publish_time', 'receive_time')"
    )
    assert problem(lambda: usable_rule(5)) == "sluicegate_delay_rule gave 5, expected None or a DelayRule"


@pytest.mark.parametrize("field", ["messages_per_s", "bytes_per_s"])
@pytest.mark.parametrize("rate", [0, 0.5, 1e15])
def test_finite_rates_are_usable_in_quotas(field: str, rate: Any) -> None:
    quota = Quota(**{field: rate})
    assert usable_quota(quota) is quota


@pytest.mark.parametrize("field", ["messages_per_s", "bytes_per_s"])
@pytest.mark.parametrize("rate", [-1, 1.1e15, True, "5"])
def test_other_rates_are_not(field: str, rate: Any) -> None:
    assert problem(lambda: usable_quota(Quota(**{field: rate}))) == (
        f"a Quota has rate {rate!r}, expected a finite number of 0 or more"
    )


def test_the_share_of_a_quota_is_a_short_text() -> None:
    assert usable_quota(None) is None
    assert usable_quota(Quota(share="x" * 500)) == Quota(share="x" * 500)
    share = "x" * 501
    assert problem(lambda: usable_quota(Quota(share=share))) == (
        f"a Quota has share {shown(share)}, expected text"
    )
    assert problem(lambda: usable_quota(5)) == "sluicegate_quota gave 5, expected None or a Quota"
