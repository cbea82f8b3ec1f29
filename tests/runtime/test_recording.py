import logging

import pytest

from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason
from sluicegate.runtime.recording import Recording
from sluicegate.testing import NullSink, build_gate

SECOND = 1_000_000_000
GATE = build_gate({}, now_ns=0)
OP = Operation(OperationKind.PUBLISH, "orders.eu", client="app@127.0.0.1:1")


def decision(action: Action, *, observed: bool = False) -> Decision:
    reason = Reason("max_publish_rate", Outcome.LIMIT_REACHED, "Publish rate limit exceeded", 2, 1, "topic")
    return Decision(action, (reason,), observed=observed)


@pytest.mark.seed("S1-116")
def test_violation_is_a_warning_once_a_second_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    sink = Recording(NullSink())
    for step in range(25):
        sink.decided(GATE, OP, decision(Action.REJECT), step * SECOND // 10)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert [vars(record)["left_out"] for record in caplog.records] == [0, 9, 9]
    assert caplog.records[0].getMessage() == "policy violation: Publish rate limit exceeded"
    assert vars(caplog.records[0])["topic"] == "orders.eu"


@pytest.mark.seed("S1-116")
def test_rate_limiting_is_logged_when_it_starts_and_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = Recording(NullSink(), sustained_ns=10 * SECOND)
    for step in range(150):
        sink.decided(GATE, OP, decision(Action.DELAY), step * SECOND // 10)
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert told == [
        (logging.INFO, "rate limiting started"),
        (logging.WARNING, "rate limiting sustained for 10 s, 101 operations held"),
    ]
    sink.decided(GATE, OP, decision(Action.DELAY), 60 * SECOND)  # after a quiet time it starts again
    assert [record.getMessage() for record in caplog.records[2:]] == [
        "rate limiting ended after 15 s, 150 operations with 0 messages held",
        "rate limiting started",
    ]


@pytest.mark.seed("S1-116")
def test_the_end_of_rate_limiting_is_logged_with_what_was_held_of_whom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    sink = Recording(NullSink())
    for number in range(8):
        client = f"app-{number % 7}@127.0.0.1:{number}"
        op = Operation(OperationKind.PUBLISH, "orders.eu", client=client, messages=3)
        sink.decided(GATE, op, decision(Action.DELAY), number * SECOND)
        sink.end_quiet(number * SECOND, {"orders.eu": 1})
    sink.end_quiet(12 * SECOND, {"orders.eu": 1})  # the last one is still held
    sink.end_quiet(14 * SECOND, {})
    assert len(caplog.records) == 1
    sink.end_quiet(14 * SECOND + 1, {})
    sink.end_quiet(20 * SECOND, {})
    first, last = caplog.records
    assert (first.levelno, vars(first)["clients"]) == (logging.INFO, "app-0")
    assert last.levelno == logging.INFO
    assert last.getMessage() == "rate limiting ended after 12 s, 8 operations with 24 messages held"
    named = vars(last)
    assert named["clients"] == "app-0, app-1, app-2, app-3, app-4 and 2 more"
    assert (named["policy"], named["topic"], named["limit"]) == ("max_publish_rate", "orders.eu", 1)


def test_what_is_only_observed_ends_once_it_would_hold_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = Recording(NullSink())
    sink.decided(GATE, OP, decision(Action.DELAY, observed=True), 0)
    sink.end_quiet(3 * SECOND, {"orders.eu": 1})  # held by another policy
    assert [vars(record)["observed"] for record in caplog.records] == [True, True]


def test_decisions_are_stamped_and_forwarded() -> None:
    sink = Recording(NullSink())
    stamped = sink.decided(GATE, OP, decision(Action.REJECT), 0)
    assert (stamped.id, stamped.policy_version) == ("1", GATE.version)


def test_decision_ids_can_be_left_out_of_errors() -> None:
    sink = Recording(NullSink(), show_ids=False)
    assert sink.decided(GATE, OP, decision(Action.REJECT), 0).id == ""


def test_observed_decisions_are_marked_as_such(caplog: pytest.LogCaptureFixture) -> None:
    Recording(NullSink()).decided(GATE, OP, decision(Action.REJECT, observed=True), 0)
    assert vars(caplog.records[0])["action"] == "would_reject"


def test_allows_pass_directly_to_the_next_sink() -> None:
    inner = NullSink()
    assert Recording(inner).allowed == inner.allowed
