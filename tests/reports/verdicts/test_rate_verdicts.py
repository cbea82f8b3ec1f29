"""Verdicts on rates: a few figures in, a verdict out."""

import pytest
from tests.reports.frames import trial
from tests.reports.verdicts.kept import KEPT, OVER, beside

from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts import judge
from sluicegate_reports.verdicts.rates import SEEN


def test_an_excess_is_told_with_its_window_and_by_whom() -> None:
    weighed = trial("max_publish_rate_bytes", 51_200)
    over = {"excess": 232_448.0, "excess_share": 2.2, "excess_window_s": 0.98, "excess_at_s": 10.21}
    finding = judge(weighed, over)
    assert finding.verdict is Verdict.OFF
    assert finding.figure == pytest.approx(220)
    said = "largest excess over rate x time + burst: +227 KiB (4.54 x the burst) within 0.98 s, at 10.2 s"
    assert finding.text == f"{said}, by clients' acknowledgements"
    rounded = judge(trial(limit=7), {**over, "excess": 33.0, "excess_window_s": 0.98765})
    assert "+33 messages (4.71 x the burst) within 0.988 s" in rounded.text
    assert "+1 messages" in judge(trial(), {**over, "excess": 1.0}).text


def test_what_was_not_given_is_told_with_its_time() -> None:
    kept = {"excess": 0.0, "largest": 1.0, "limited": 9.0, "used": 0.998, "waited_s": 6.1}
    exact = judge(trial(), kept)
    assert exact.verdict is Verdict.EXACT
    said = "used 99.8 % of what was owed while anyone waited (6.1 s)"
    assert exact.text == f"never more than rate x time + burst; {said}, by clients' acknowledgements"
    off = judge(trial(), {**kept, "used": 0.8, "fell": 12.2, "fell_at_s": 3.0})
    assert off.verdict is Verdict.OFF
    assert "(6.1 s), 12 messages less from 3 s on" in off.text
    row = {**kept, "waited_s": 6.14, "used": 0.8, "fell": 12.2, "fell_at_s": 3.14}
    assert "(6.1 s), 12 messages less from 3.1 s on" in judge(trial(), row).text
    assert "less" not in judge(trial(), {**kept, "used": 0.995}).text


def test_a_log_and_clients_that_disagree_are_disputed() -> None:
    assert judge(trial(), beside()).verdict is Verdict.EXACT
    more = judge(trial(), beside(admitted_messages=330.0))
    assert more.verdict is Verdict.DISPUTED
    assert "220 messages were admitted by the log, 330 by the clients" in more.text
    at_once = judge(trial(), beside(**OVER))
    assert at_once.verdict is Verdict.DISPUTED
    assert at_once.text.startswith("the log and the clients disagree: log never more than")
    # What a gate writes down against itself is true, whatever its clients saw.
    assert judge(trial(), {**beside(), **OVER}).verdict is Verdict.OFF
    both = {**beside(**OVER), **OVER}
    assert judge(trial(), both).verdict is Verdict.OFF


def test_a_limit_shown_to_be_kept_by_the_log_alone_is_unconfirmed() -> None:
    alone = {**KEPT, **dict.fromkeys(map(SEEN.__add__, KEPT))}
    finding = judge(trial(), alone)
    assert (finding.verdict, finding.figure) == (Verdict.UNCONFIRMED, 0.0)
    assert finding.text.startswith("by the log alone: never more than")
    assert judge(trial(nearest="per broker"), alone).verdict is Verdict.UNCONFIRMED
    assert judge(trial(), {**alone, "excess": 9.0, "excess_share": 0.02}).verdict is Verdict.UNCONFIRMED
    # A log that itself shows the limit exceeded needs no confirmation by clients.
    assert judge(trial(), {**alone, **OVER}).verdict is Verdict.OFF
    # Clients that were all refused contradict the log.
    assert judge(trial(), {**alone, f"{SEEN}admitted_messages": 0.0}).verdict is Verdict.DISPUTED


def test_a_limit_that_clients_never_came_up_to_was_not_reached() -> None:
    slow = {**KEPT, "excess": -5.2, "limited": 0.0, "used": None}
    finding = judge(trial(), slow)
    assert finding.verdict is Verdict.NOT_REACHED
    assert finding.text.startswith("not reached: nobody was held or refused")
    # Who was refused came up to it, and so did who used the whole bucket. Below it on purpose is as planned.
    for others in ({"limited": 1.0}, {"excess": -0.5}, {"largest": 6.0}):
        assert judge(trial(), {**slow, **others}).verdict is Verdict.EXACT
    assert judge(trial(saturated=False), slow).verdict is Verdict.EXACT
    # What a message of a full bucket leaves is the whole of it; a few wrong answers do not show it spent.
    for excess in (-1.0, -1.5):
        assert judge(trial(), {**slow, "excess": excess}).verdict is Verdict.NOT_REACHED
    assert judge(trial(), {**slow, "judged": 200, "wrongly_refused": 10}).verdict is Verdict.NOT_REACHED


def test_clients_held_back_although_they_ask_for_less_make_a_rate_off() -> None:
    finding = judge(trial(saturated=False), {**KEPT, "used": 0.4, "waited_s": 3.0})
    assert finding.verdict is Verdict.OFF
    assert finding.text.endswith("clients were held back below the limit")
    for tried, used in ((trial(), 0.4), (trial(saturated=False), 1.0)):
        assert "held back" not in judge(tried, {**KEPT, "used": used}).text


@pytest.mark.parametrize(
    ("excess_share", "verdict"),
    [(0.005, Verdict.EXACT), (0.006, Verdict.WITHIN), (0.05, Verdict.WITHIN), (0.051, Verdict.OFF)],
)
def test_an_excess_is_judged_by_its_share(excess_share: float, verdict: Verdict) -> None:
    finding = judge(trial(), {**KEPT, "excess": 1.0, "excess_share": excess_share})
    assert finding.verdict is verdict
    assert finding.figure == pytest.approx(100 * excess_share)
    assert (finding.bound, finding.unit) == (5, "%")
    assert judge(trial(), {**KEPT, "excess": 0.0, "excess_share": excess_share}).verdict is Verdict.EXACT


@pytest.mark.parametrize(
    ("used", "verdict"),
    [(1.02, Verdict.EXACT), (0.996, Verdict.EXACT), (0.96, Verdict.WITHIN), (0.94, Verdict.OFF)],
)
def test_what_was_owed_is_judged_by_the_share_that_was_given(used: float, verdict: Verdict) -> None:
    assert judge(trial(), {**KEPT, "used": used}).verdict is verdict


def test_nothing_admitted_leaves_a_rate_unmeasured() -> None:
    finding = judge(trial(), {**KEPT, "excess": None})
    assert finding.verdict is Verdict.MISSING
    assert finding.text == "nothing was admitted in this phase, or nothing was written down"


@pytest.mark.parametrize(
    ("log", "seen", "least", "most"),
    [
        # 5 % of 220 and the largest operation, 1 message if it is not known.
        ({}, {}, 208, 232),
        ({"largest_messages": 5.0}, {}, 204, 236),
        ({"under_way": 7.0}, {}, 201, 239),
        # Let pass before the phase and received in it: clients may have more, not fewer.
        ({}, {"carried_messages": 9.0}, 208, 241),
        # Let pass in the phase and answered after it: clients may have fewer, not more.
        ({}, {"unanswered": 9.0}, 199, 232),
    ],
)
def test_a_log_and_clients_may_differ_by_messages_on_their_way(
    log: dict[str, float], seen: dict[str, float], least: int, most: int
) -> None:
    allowed = [
        messages
        for messages in range(190, 250)
        if judge(trial(), {**beside(admitted_messages=messages, **seen), **log}).verdict is Verdict.EXACT
    ]
    assert allowed == [*range(least, most + 1)]


def test_refusals_in_the_name_of_another_policy_are_off() -> None:
    finding = judge(trial(), {**KEPT, "misattributed": 1})
    assert (finding.verdict, finding.figure) == (Verdict.OFF, 100)
    assert "; 1 refused in the name of another policy" in finding.text
    assert "another policy" not in judge(trial(), {**KEPT, "misattributed": 0}).text


@pytest.mark.parametrize("name", ["wrongly_admitted", "wrongly_refused"])
@pytest.mark.parametrize(
    ("count", "verdict"), [(1, Verdict.EXACT), (2, Verdict.WITHIN), (10, Verdict.WITHIN), (11, Verdict.OFF)]
)
def test_wrong_decisions_count_by_their_share_from_the_second_on(
    name: str, count: int, verdict: Verdict
) -> None:
    finding = judge(trial(), {**KEPT, "judged": 200, name: count})
    assert finding.verdict is verdict
    assert (f"; {count} {name.replace('_', ' ')}" in finding.text) is (count > 1)
    assert judge(trial(), {**KEPT, "judged": None, name: 2}).figure == 200


def test_what_the_log_admits_at_once_may_reach_clients_one_by_one() -> None:
    """A batch of 30 messages passes a full bucket; its clients get an answer for each."""
    seen = {"excess": 29.0, "excess_share": 0.5, "largest": 1.0}
    assert judge(trial(), {**beside(**seen), "largest": 30.0}).verdict is Verdict.EXACT
    assert judge(trial(), {**beside(**seen), "largest": 29.0}).verdict is Verdict.DISPUTED
    assert judge(trial(), {**beside(**seen), "largest": None}).verdict is Verdict.DISPUTED
    assert (
        judge(trial(), {**beside(**{**seen, "largest": 40.0}), "largest": 30.0}).verdict is Verdict.DISPUTED
    )
    kept = beside(excess=-5.0, excess_share=0.5, largest=40.0)
    assert judge(trial(), {**kept, "largest": 30.0}).verdict is Verdict.EXACT
    for excess, verdict in ((0.5, Verdict.DISPUTED), (-0.5, Verdict.EXACT)):
        unknown = beside(excess=excess, excess_share=0.5, largest=None)
        assert judge(trial(), {**unknown, "largest": None}).verdict is verdict


def test_the_worse_of_the_log_and_its_clients_decides() -> None:
    within = judge(trial(), beside(excess=4.0, excess_share=0.03))
    assert within.verdict is Verdict.WITHIN
    assert within.figure == pytest.approx(3)
    assert within.text.endswith("by clients' acknowledgements")
    # Clients of whom nothing was recorded but that messages passed do not decide.
    assert judge(trial(), beside(excess=None)).text.endswith("by the log")
    received = judge(trial("max_dispatch_rate"), beside(excess=4.0, excess_share=0.03))
    assert received.text.endswith("by clients' receipts")
