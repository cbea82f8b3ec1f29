"""The status of a refused call, as clients of the richer error model read it."""

from dataclasses import replace

import pytest
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status

from sluicegate.model import Action, Decision, Outcome, Reason
from sluicegate_grpc.semantics.calls import LostPlace
from sluicegate_grpc.semantics.status import Refusal, malformed, refusal

REASON = Reason("max_publish_rate", Outcome.LIMIT_REACHED, "too fast", 6.5, 10485760, "topic")
DECISION = Decision(Action.REJECT, (REASON,), delay_ns=1_500_000_000, id="abc-1")


def details(told: Refusal) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for packed in Status.FromString(told.details).details:
        kind = {"ErrorInfo": ErrorInfo, "RetryInfo": RetryInfo, "QuotaFailure": QuotaFailure}[
            packed.type_url.rpartition(".")[2]
        ]
        made = kind()
        assert packed.Unpack(made)
        found.setdefault(kind.__name__, []).append(made)
    return found


def test_the_status_details_repeat_code_and_text() -> None:
    told = refusal(DECISION, "/a/t")
    status = Status.FromString(told.details)
    assert (told.code, told.text) == (8, "too fast [sluicegate abc-1]") == (status.code, status.message)


@pytest.mark.seed("S1-100", "S1-101", "S1-102")
@pytest.mark.parametrize(
    ("outcome", "code"), [(Outcome.LIMIT_REACHED, 8), (Outcome.INVALID, 3), (Outcome.PRECONDITION, 9)]
)
def test_codes_follow_the_outcome(outcome: Outcome, code: int) -> None:
    decision = replace(DECISION, reasons=(replace(REASON, outcome=outcome),))
    assert refusal(decision, "/a/t").code == code


def test_a_lost_place_is_not_found() -> None:
    assert refusal(LostPlace(Action.REJECT, (REASON,)), "/a/t").code == 5


def test_numbers_are_formatted_in_full() -> None:
    [info] = details(refusal(DECISION, "/a/t"))["ErrorInfo"]
    assert isinstance(info, ErrorInfo)
    assert dict(info.metadata) == {
        "topic": "/a/t",
        "policy": "max_publish_rate",
        "limit": "10485760",
        "current": "6.500",
        "level": "topic",
        "decision_id": "abc-1",
    }


@pytest.mark.parametrize(
    ("wait_ns", "action", "told_ns"),
    [
        (1_500_000_000, Action.REJECT, 1_500_000_000),
        (1, Action.REJECT, 1_000_000),
        (0, Action.DELAY, 1_000_000),
        (0, Action.REJECT, None),
    ],
)
def test_rate_refusals_carry_a_positive_retry_delay(
    wait_ns: int, action: Action, told_ns: int | None
) -> None:
    refused = refusal(replace(DECISION, delay_ns=wait_ns, action=action), "/a/t")
    found = details(refused).get("RetryInfo", [])
    waits = [each.retry_delay.ToNanoseconds() for each in found if isinstance(each, RetryInfo)]
    assert waits == ([] if told_ns is None else [told_ns])
    pushback = dict(refused.trailers).get("grpc-retry-pushback-ms")
    assert pushback == (None if told_ns is None else str(told_ns // 1_000_000))


def test_a_client_is_not_told_to_retry_too_early() -> None:
    refused = refusal(replace(DECISION, delay_ns=1_000_001), "/a/t")
    assert dict(refused.trailers)["grpc-retry-pushback-ms"] == "2"


def test_details_carry_every_reason_and_only_limits_as_quotas() -> None:
    invalid = Reason("max_message_size", Outcome.INVALID, "too large", 2, 1)
    found = details(refusal(replace(DECISION, reasons=(REASON, invalid)), "/a/t"))
    reasons = [each.reason for each in found["ErrorInfo"] if isinstance(each, ErrorInfo)]
    assert reasons == ["MAX_PUBLISH_RATE", "MAX_MESSAGE_SIZE"]
    [quota] = found["QuotaFailure"]
    assert isinstance(quota, QuotaFailure)
    assert [(each.subject, each.description) for each in quota.violations] == [("topic:/a/t", "too fast")]


def test_a_malformed_message_names_its_method() -> None:
    assert malformed("/p.S/M") == Refusal(3, "Malformed message for /p.S/M", b"")
