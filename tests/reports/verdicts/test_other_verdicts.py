"""Verdicts on counts, sizes and delays, and what deliveries and further metrics add to any verdict."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reports.frames import trial
from tests.reports.registry import river
from tests.reports.verdicts.kept import KEPT, OVER

from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts import Finding, judge, worst_finding

ANSWERED = {"attempts": 200.0, "above": 100.0, "wrongly_admitted": 0.0, "wrongly_refused": 0.0}
UNACKED = "max_unacked_messages_per_consumer"


def test_lost_duplicate_and_unread_messages_affect_every_verdict() -> None:
    for name, verdict in (
        ("lost", Verdict.OFF),
        ("altered", Verdict.OFF),
        ("told_refused", Verdict.OFF),
        ("duplicates", Verdict.WITHIN),
        ("unread", Verdict.EXACT),
    ):
        finding = judge(trial(), {**KEPT, name: 1, "delivered_of": 5_000})
        assert finding.verdict is verdict
        assert finding.text.rpartition("; ")[2].startswith("of 5,000 messages 1 ")


def test_messages_that_never_come_below_a_limit_on_unacknowledged_ones_are_wrong() -> None:
    tried = trial("max_unacked_messages_per_consumer", 10)
    assert judge(tried, {"most": 10, "lost": 90}).verdict is Verdict.EXACT
    assert judge(tried, {"most": 5, "lost": 0}).verdict is Verdict.WITHIN
    assert judge(tried, {"most": 5, "lost": 95, "left": 1}).verdict is Verdict.WITHIN
    finding = judge(tried, {"most": 5, "lost": 95, "left": 0})
    assert finding.verdict is Verdict.OFF
    assert finding.text == "at most 5 unacknowledged, limit 10; 95 never came, though there was room for them"


def test_a_delay_by_clocks_that_differ_is_missing() -> None:
    delays = {"messages": 9, "early": None, "least_ms": -300.0, "p99_ms": 9.0, "soonest_ms": -250.0}
    finding = judge(trial("fixed_delivery_delay", 500), delays)
    said = "the clocks of producers and consumers differ: a message came 250 ms before it was sent"
    assert finding == Finding(Verdict.MISSING, text=said)


def test_the_figure_of_an_early_message_is_how_early_it_was() -> None:
    delays = {"messages": 10_000, "early": 1, "least_ms": -12.0, "p99_ms": 20.0, "soonest_ms": 488.0}
    finding = judge(trial("fixed_delivery_delay", 500), delays)
    said = "1 early, p99 20 ms late, the earliest by 12 ms"
    assert finding == Finding(Verdict.OFF, 12.0, 1.0, "ms", said)
    assert judge(trial("fixed_delivery_delay", 500), {**delays, "least_ms": None}).figure == 0
    late = judge(trial("fixed_delivery_delay", 500), {**delays, "early": 0, "p99_ms": 1_500.0})
    assert (late.verdict, late.bound) == (Verdict.OFF, 1_000.0)
    assert worst_finding([late, finding]) is finding, "12 times its bound is worse than 1.5 times"


@pytest.mark.parametrize("answers", [{}, {"wrongly_admitted": 0, "wrongly_refused": 0, "attempts": 9}])
def test_sends_that_failed_are_not_called_untried(answers: dict[str, float]) -> None:
    figures = {"above": 0, "failed": 82, **answers}
    finding = judge(trial("max_message_size", 100), figures)
    assert finding == Finding(Verdict.MISSING, text="above the limit all 82 sends failed without an answer")


def test_a_client_refused_and_served_is_wrong() -> None:
    counted = {"attempts": 3, "wrongly_admitted": 0, "wrongly_refused": 0, "served": 1}
    finding = judge(trial("max_consumers_per_topic", 2), counted)
    assert (finding.verdict, finding.figure) == (Verdict.OFF, 1)
    assert "1 refused and yet served" in finding.text


def test_what_was_not_tried_is_told_with_its_reason() -> None:
    assert judge(trial(not_applicable="no rates"), OVER) == Finding(Verdict.NOT_APPLICABLE, text="no rates")
    assert judge(trial(missing="no broker"), OVER) == Finding(Verdict.NOT_PLAYED, text="no broker")


def test_what_comes_only_near_to_a_policy_is_never_exact() -> None:
    said = "; nearest, not the same: per broker"
    near = judge(trial(nearest="per broker"), KEPT)
    assert near.verdict is Verdict.WITHIN
    assert near.text.endswith(said)
    assert judge(trial(nearest="per broker"), {**KEPT, **OVER}).verdict is Verdict.OFF
    for figures in ({}, {**KEPT, "excess": -5.2, "limited": 0.0}):
        assert judge(trial(nearest="per broker"), figures) == judge(trial(), figures)


@pytest.mark.parametrize(("refused", "otherwise"), [(106, 0), (0, 0), (116, 10)])
def test_a_log_may_tell_of_as_many_refused_messages_as_its_clients(refused: int, otherwise: int) -> None:
    figures = {**ANSWERED, "refused": refused, "otherwise": otherwise, "log_refused": 100}
    assert judge(trial("max_message_size", 9), figures).verdict is Verdict.EXACT
    figures["refused"] = 107 + otherwise
    disputed = judge(trial("max_message_size", 9), figures)
    assert disputed.verdict is Verdict.DISPUTED
    assert "100 messages were refused by the log, 107 by the clients" in disputed.text
    # Natively there is no log, and what is wrong by the clients alone is wrong.
    assert judge(trial("max_message_size", 9), {**figures, "log_refused": None}).verdict is Verdict.EXACT
    assert judge(trial("max_message_size", 9), {**figures, "wrongly_refused": 1}).verdict is Verdict.OFF


def test_wrong_answers_are_told_one_by_one() -> None:
    wrong = {**ANSWERED, "wrongly_admitted": 2, "wrongly_refused": 1, "served": 3, "otherwise": 4}
    counted = judge(trial("max_producers_per_topic", 9), wrong)
    said = "6 of 200 answers wrong: 2 let in, 1 refused, 3 refused and yet served"
    assert counted == Finding(Verdict.OFF, 6, 0, "answers", f"{said}; 4 more refused, not by this policy")
    sized = judge(trial("max_message_size", 9), {**ANSWERED, "otherwise": 4})
    said = "0 of 200 answers wrong; 4 of them refused with another code, not by this policy"
    assert sized == Finding(Verdict.EXACT, 0, 0, "answers", said)


def test_refusals_that_may_be_anothers_leave_a_count_unmeasured() -> None:
    doubtful = {**ANSWERED, "unclear": 5, "doubtful": 2}
    finding = judge(trial("max_producers_per_topic", 9), doubtful)
    said = "of 5 refused it cannot be told whether it was this policy, and 2 of them would be wrong"
    assert finding == Finding(Verdict.MISSING, text=f"0 of 200 answers wrong; {said}")
    certain = judge(trial("max_producers_per_topic", 9), {**doubtful, "wrongly_admitted": 1})
    assert certain.verdict is Verdict.OFF
    assert judge(trial("max_producers_per_topic", 9), {**doubtful, "doubtful": 0}).verdict is Verdict.EXACT


@pytest.mark.parametrize("lacking", ["attempts", "wrongly_admitted", "wrongly_refused"])
def test_answers_that_nobody_got_are_missing(lacking: str) -> None:
    finding = judge(trial("max_message_size", 9), {**ANSWERED, lacking: None})
    assert finding == Finding(Verdict.MISSING, text="no client tried, or nothing was recorded")
    below = judge(trial("max_message_size", 9), {**ANSWERED, "above": 0})
    assert below == Finding(Verdict.MISSING, text="nothing above the limit was tried")


@pytest.mark.parametrize(
    ("p99_ms", "beyond_ms", "verdict", "figure"),
    [
        (250, None, Verdict.EXACT, 250),
        (251, None, Verdict.WITHIN, 251),
        (1_000, 100, Verdict.WITHIN, 1_000),
        (1_001, None, Verdict.OFF, 1_001),
        # Everything came late then: what is no fault of the delay does not make it exact.
        (1_001, 100, Verdict.WITHIN, 100),
        (5_000, 1_001, Verdict.OFF, 1_001),
        (1_001, 1_001, Verdict.OFF, 1_001),
    ],
)
def test_a_late_delivery_is_judged_by_what_others_did_not_share(
    p99_ms: float, beyond_ms: float | None, verdict: Verdict, figure: float
) -> None:
    delays = {"messages": 9, "early": 0, "p99_ms": p99_ms, "beyond_p99_ms": beyond_ms, "soonest_ms": -1.0}
    finding = judge(trial("fixed_delivery_delay", 500), delays)
    said = f"0 early, p99 {p99_ms:,} ms late"
    if figure < p99_ms:
        said += f", {figure:,} ms beyond what messages without a delay took then"
    assert finding == Finding(verdict, figure, 1_000, "ms", said)


@pytest.mark.parametrize("lacking", ["messages", "early", "p99_ms"])
def test_a_delay_of_no_messages_is_missing(lacking: str) -> None:
    delays = {"messages": 9, "early": 0, "p99_ms": 9.0, lacking: None}
    finding = judge(trial("fixed_delivery_delay", 500), delays)
    assert finding == Finding(Verdict.MISSING, text="no message was received in this phase")


def test_the_most_unacknowledged_messages_decide() -> None:
    finding = judge(trial(UNACKED, 10), {"most": 11, "acknowledged": 7})
    said = "at most 11 unacknowledged, limit 10; 7 were acknowledged meanwhile"
    assert finding == Finding(Verdict.OFF, 11, 10, "messages", said)
    assert judge(trial(UNACKED, 10), {"most": 10, "untold": 1}).verdict is Verdict.EXACT
    nothing = judge(trial(UNACKED, 10), {"most": None})
    assert nothing == Finding(Verdict.MISSING, text="no message was received in this phase")
    said = "11 were received, and these observations, of version 1, do not tell what consumers acknowledged"
    untold = judge(trial(UNACKED, 10), {"most": 11, "untold": 1})
    assert untold == Finding(Verdict.MISSING, text=f"{said}: record the run again")


@pytest.mark.parametrize(
    ("policy", "name", "verdict"),
    [
        ("fixed_delivery_delay", "reordered", Verdict.WITHIN),
        # Messages with different delays, or that came again, have no order.
        ("max_delivery_delay", "reordered", Verdict.EXACT),
        (UNACKED, "reordered", Verdict.EXACT),
        # What is withheld until others are acknowledged is not lost.
        (UNACKED, "lost", Verdict.EXACT),
        ("max_delivery_delay", "lost", Verdict.OFF),
        (UNACKED, "altered", Verdict.OFF),
    ],
)
def test_what_a_policy_does_to_order_is_no_fault(policy: str, name: str, verdict: Verdict) -> None:
    kept = {"messages": 9.0, "early": 0.0, "p99_ms": 1.0, "most": 10.0, **ANSWERED}
    assert judge(trial(policy, 10), kept).verdict is Verdict.EXACT
    assert judge(trial(policy, 10), {**kept, name: 5, "delivered_of": 5_000}).verdict is verdict


def test_a_share_of_messages_may_come_twice_or_out_of_order() -> None:
    delivered = {**KEPT, "duplicates": 3, "reordered": 2, "delivered_of": 5_000}
    within = judge(trial(), delivered)
    assert (within.verdict, within.figure, within.bound, within.unit) == (Verdict.WITHIN, 5, 0, "messages")
    assert within.text.endswith("; of 5,000 messages 3 received twice, 2 out of order")
    off = judge(trial(), {**delivered, "reordered": 3, "lost": 1})
    assert (off.verdict, off.figure) == (Verdict.OFF, 7)
    assert judge(trial(), {**delivered, "reordered": 3}).verdict is Verdict.OFF
    assert judge(trial(), {**KEPT, "lost": 1}).text.endswith("; of 0 messages 1 lost")
    # What is off already keeps its own figure.
    over = judge(trial(), {**delivered, **OVER})
    assert (over.verdict, over.figure, over.unit) == (Verdict.OFF, 50, "%")
    assert over.text.endswith("2 out of order")


@pytest.fixture
def barges(tmp_path: Path) -> Iterator[None]:
    """A package whose metric has a rule: no barge above 99 bytes."""
    yield from river.installed(tmp_path, river.METRIC)


@pytest.mark.usefixtures("barges")
def test_the_rule_of_a_further_metric_takes_part_in_the_verdict() -> None:
    kept = judge(trial(), KEPT)
    small, large = (judge(trial(), {**KEPT, "largest_barge": size}) for size in (99, 100))
    assert (small.verdict, small.figure, small.unit) == (kept.verdict, kept.figure, "%")
    assert small.text == f"{kept.text}; the largest barge had 99 bytes"
    assert (large.verdict, large.figure, large.unit) == (Verdict.OFF, 100, "bytes")
    assert large.text == f"{kept.text}; the largest barge had 100 bytes"
    both = judge(trial(), {**KEPT, **OVER, "largest_barge": 100})
    assert (both.figure, both.unit) == (50, "%"), "of equal verdicts the family's own figure stays"
