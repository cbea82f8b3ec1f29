"""Admitted and refused attachments, who refused them, and whether rightly: on small frames."""

from typing import Any

import pytest
from tests.reports import frames
from tests.reports.frames import comes, trial

from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms import counts

Row = dict[str, Any]


def test_producers_by_hand() -> None:
    rows = [
        comes(-1, "p1"),  # before the trial: it counts, and is not judged
        comes(1, "p2"),
        comes(2, "p3", "attach_refused"),
        comes(3, "p1", "detached"),
        comes(4, "p3", "attach_refused"),  # wrong: there is room
        comes(5, "p3"),
        comes(6, "p4"),  # wrong: there is none
        comes(7, "c1", role="consumer"),
        comes(8, "p5", topic="other"),
        comes(11, "p5"),
    ]
    assert judged(rows, trial("max_producers_per_topic", 2)) == [
        {
            "attempts": 5,
            "attached": 3,
            "refused": 2,
            "otherwise": 0,
            "most": 3,
            "wrongly_admitted": 1,
            "wrongly_refused": 1,
            "unclear": 0,
            "doubtful": 0,
        }
    ]


def judged(rows: list[Row], *trials: Trial, log: list[Row] | None = None) -> list[Row]:
    """The figures of each trial."""
    rows_of_trials = frames.of_others(trials, rows, log)["attachments"]
    return [counts.folded(r for r in rows_of_trials if r["trial"] == number) for number in range(len(trials))]


def test_subscriptions_and_consumers_by_hand() -> None:
    def consumer(at_s: float, client: str, subscription: str, event: str = "attached", text: str = "") -> Row:
        return comes(at_s, client, event, role="consumer", subscription=subscription, text=text)

    rows = [
        consumer(1, "c1", "s1"),
        consumer(2, "c2", "s1"),
        consumer(3, "c3", "s1", "attach_refused", "Consumer limit per topic reached for orders"),
        consumer(4, "c4", "s2"),
        consumer(5, "c4", "s2", "detached"),
        consumer(6, "c5", "s3", "attach_refused", "Subscription limit reached for topic orders"),
        consumer(7, "c6", "s1", "attach_refused", "Subscription limit reached for topic orders"),
    ]
    trials = [
        trial(
            "max_subscriptions_per_topic", 2
        ),  # s1 and s2 stay; s3 is refused, rightly; s1 existed: c6 wrongly
        trial("max_consumers_per_topic", 3),  # c3 is refused though there are two; c5 and c6 by another
        trial("max_consumers_per_subscription", 2, subscription="s1"),
        trial("max_consumers_per_subscription", 1),  # each: c2 is one too many
    ]
    names = ("attempts", "attached", "refused", "otherwise", "most", "wrongly_admitted", "wrongly_refused")
    assert [tuple(each[name] for name in names) for each in judged(rows, *trials)] == [
        (4, 2, 2, 0, 2, 0, 1),
        (4, 3, 1, 2, 3, 0, 1),
        (2, 2, 0, 2, 2, 0, 0),
        (3, 3, 0, 3, 2, 1, 0),
    ]


def test_simultaneous_attempts_are_judged_by_what_is_certain() -> None:
    def tried(at_s: float, client: str, event: str = "attached", for_s: float = 1) -> Row:
        return comes(at_s, client, event, latency_ns=int(for_s * 1e9))

    rows = [
        tried(2, "p1", "attach_refused"),  # told before the two that had the places were told
        tried(2.1, "p2"),
        tried(2.2, "p3"),
        tried(4.5, "p2", "detached", 0.5),
        tried(4.4, "p4"),  # p2 had begun to leave
        tried(6, "p3", "detached"),
        tried(5.5, "p5", "attach_refused"),  # p3 was leaving: perhaps it was still there
        tried(7.9, "p6", "attach_refused"),  # surely p4 alone was there
        tried(9, "p7"),
        tried(9.1, "p8"),  # whichever came last: three are there
    ]
    (figures,) = judged(rows, trial("max_producers_per_topic", 2))
    assert (figures["refused"], figures["wrongly_refused"]) == (3, 1)
    assert (figures["attached"], figures["wrongly_admitted"], figures["most"]) == (5, 1, 3)


def test_a_client_refused_by_the_broker_may_have_held_a_place_of_the_gate() -> None:
    rows = [
        comes(1, "p1"),
        comes(6, "p2", "attach_refused", latency_ns=4 * 10**9, code="KafkaError"),  # let in by the gate
        comes(3, "p3", "attach_refused", latency_ns=10**9, code="PolicyViolationError"),
        comes(
            9, "p4", "attach_refused", latency_ns=10**9, code="PolicyViolationError"
        ),  # p2 was away by then
    ]
    (figures,) = judged(rows, trial("max_producers_per_topic", 2))
    assert (figures["refused"], figures["otherwise"], figures["wrongly_refused"]) == (2, 1, 1)


LIMITS = (
    trial("max_subscriptions_per_topic", 1),
    trial("max_consumers_per_topic", 1),
    trial("max_consumers_per_subscription", 1),
)


def refused(client: str = "c1", at_s: float = 5, **changes: Any) -> Row:
    row = comes(at_s, client, "attach_refused", role="consumer", subscription="s", latency_ns=10**8)
    return {**row, **changes}


def rejection(policy: str = "max_consumers_per_topic", at_s: float = 5, **changes: Any) -> Row:
    base = {
        "operation": "attach_consumer",
        "action": "reject",
        "subscription": "s",
        "client": "c1@10.0.0.1:1",
    }
    return {"at": at_s, "policy": policy, "decision_id": "k3x9qa-1", **base, **changes}


@pytest.mark.parametrize(
    ("seen", "log", "policies", "how"),
    [
        # The id wins over all else, whatever the clocks say.
        (
            refused(text="No. [sluicegate k3x9qa-1]"),
            [rejection(at_s=3000), rejection("max_subscriptions_per_topic", decision_id="k3x9qa-2")],
            ["max_consumers_per_topic"],
            "id",
        ),
        (refused(text="Topic reached max consumers limit"), [], ["max_consumers_per_topic"], "text"),
        # By topic, subscription, client and time.
        (refused(), [rejection()], ["max_consumers_per_topic"], "log"),
        (
            refused(),
            [rejection(), rejection("max_subscriptions_per_topic", at_s=9)],
            ["max_consumers_per_topic"],
            "log",
        ),
        (refused(), [rejection(client="Lib-1@10.0.0.1:1")], ["max_consumers_per_topic"], "log"),
        # Two policies refused somebody there and then, and the log does not tell whom.
        (
            refused(),
            [rejection(client="Lib-1@h:1"), rejection("max_subscriptions_per_topic", client="Lib-1@h:2")],
            ["max_consumers_per_topic", "max_subscriptions_per_topic"],
            "log",
        ),
        # The log knows nothing of it: the code may still be a policy's, or is no policy's.
        (
            refused(code="GroupMaxSizeReachedError"),
            [rejection(subscription="t")],
            sorted(each.policy for each in LIMITS),
            "no row",
        ),
        (refused(code="InvalidRequestError"), [rejection(topic="other")], [], None),
        # Without a log the code, and what is set on the topic, are all there is.
        (refused(code="InvalidRequestError"), None, [], None),
        (refused(code="GroupMaxSizeReachedError"), None, sorted(each.policy for each in LIMITS), "code"),
    ],
)
def test_refusals_are_attributed_to_gate_or_broker(
    seen: Row, log: list[Row] | None, policies: list[str], how: str | None
) -> None:
    figures = frames.of_others(LIMITS, [seen], log)["attachments"]
    assert {(tuple(row["policies"]), row["how"]) for row in figures} == {(tuple(policies), how)}


@pytest.mark.parametrize(
    ("code", "policy", "whose"),
    [
        ("ProducerBusy", "max_producers_per_topic", "own"),
        ("NotAllowedError", "max_subscriptions_per_topic", "own"),
        ("ConsumerBusy", "max_consumers_per_topic", "own"),  # the other one that says so is not set
        ("Timeout", "max_consumers_per_topic", "other"),
    ],
)
def test_native_codes_of_pulsar(code: str, policy: str, whose: str) -> None:
    native = {"system": "pulsar", "door": "native"}
    role = "producer" if policy == "max_producers_per_topic" else "consumer"
    seen = {**refused(code=code, role=role), **native}
    (figures,) = frames.of_others([trial(policy, 1, **native)], [seen])["attachments"]
    assert (figures["whose"], figures["wrong"]) == (whose, whose == "own")
