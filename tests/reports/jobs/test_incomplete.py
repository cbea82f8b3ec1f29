"""Verdicts where a part of a system's files is lost: what is there proves, what lacks does not."""

from typing import Any

import pytest
from tests.reports.frames import trial
from tests.reports.verdicts.kept import beside

from sluicegate_reports.jobs.incomplete import Incomplete, by_the_rest, certain
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts import Figures, Finding, judge

_BY_LOG = Measures(laws=[{"lane": 0, "source": "log"}])
_NO_LOG, _NO_SEEN = Incomplete(log=frozenset({"kafka"})), Incomplete(seen=frozenset({"kafka"}))


def judged(tried: Trial, figures: Figures, lacking: Incomplete, measures: Measures = _BY_LOG) -> Finding:
    return by_the_rest(0, tried, figures, judge(tried, figures), measures, lacking)


@pytest.mark.parametrize(
    ("lacking", "changes", "verdict"),
    [
        # They agree, so what lacks is little.
        (_NO_LOG, {}, Verdict.EXACT),
        (_NO_SEEN, {}, Verdict.EXACT),
        # Of the other one a part is lost: the whole one counts.
        (_NO_LOG, {"admitted_messages": 330.0}, Verdict.EXACT),
        (_NO_LOG, {"admitted_messages": 330.0, "excess": 100.0, "excess_share": 0.5}, Verdict.OFF),
        (_NO_SEEN, {"admitted_messages": 110.0}, Verdict.UNCONFIRMED),
        # What clients saw too much of they saw.
        (_NO_SEEN, {"excess": 100.0, "excess_share": 0.5}, Verdict.OFF),
        (Incomplete(_NO_LOG.log, _NO_SEEN.seen), {"admitted_messages": 110.0}, Verdict.MISSING),
        # Of which system it is a part is not known.
        (Incomplete(log=frozenset({"*"})), {"admitted_messages": 330.0}, Verdict.EXACT),
        (Incomplete(log=frozenset({"pulsar"})), {"admitted_messages": 330.0}, Verdict.DISPUTED),
    ],
)
def test_a_rate_is_judged_by_the_one_that_is_whole(
    lacking: Incomplete, changes: dict[str, float], verdict: Verdict
) -> None:
    assert judged(trial(), beside(**changes), lacking).verdict is verdict


def test_answers_that_are_right_in_part_are_missing_and_wrong_ones_stay() -> None:
    sizes = trial("max_message_size", 1_000)
    figures = {"attempts": 9, "above": 3, "wrongly_admitted": 0, "wrongly_refused": 0}
    finding = judged(sizes, figures, _NO_SEEN)
    assert finding.verdict is Verdict.MISSING
    assert finding.text == "a part of the observations is lost; by the rest: 0 of 9 answers wrong"
    assert judged(sizes, {**figures, "wrongly_admitted": 1}, _NO_SEEN).verdict is Verdict.OFF
    assert judged(sizes, figures, _NO_LOG).verdict is Verdict.EXACT


def test_nothing_is_called_lost_below_or_refused_for_what_lacks() -> None:
    owed: dict[str, Any] = {"lane": 0, "source": "log", "owed": 100.0, "given": 50.0}
    delivery = {"system": "kafka", "lost": 3, "unread": 1, "duplicates": 2}
    refused = {"trial": 0, "event": "attach_refused", "wrong": 2}
    measures = Measures(
        owed=[owed],
        judged=[{"lane": 0, "wrongly_refused": 9}],
        deliveries=[delivery],
        attachments=[refused, {**refused, "event": "attached"}],
    )
    trials = (trial(),)
    assert certain(measures, trials, Incomplete()) == measures
    by_log = certain(measures, trials, _NO_LOG)
    assert (by_log.owed, by_log.judged, by_log.deliveries) == ([], [], [delivery])
    seen = certain(measures, trials, _NO_SEEN)
    assert seen.owed == [owed]
    assert seen.deliveries == [{**delivery, "lost": None, "unread": None}]
    assert [row["wrong"] for row in seen.attachments] == [0, 2]


def test_a_system_itself_has_no_log_to_lose() -> None:
    assert not _NO_LOG.lacks_log(trial(door="native"))
