"""Figures of a trial: small tables in, a verdict out."""

from typing import Any

import pytest
from tests.reports.frames import trial
from tests.reports.verdicts.kept import KEPT

from sluicegate_reports.jobs.compare import judged
from sluicegate_reports.jobs.figures import figures_of
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.results import RunFacts
from sluicegate_reports.model.runs import Run, Trial
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts import Finding
from sluicegate_reports.verdicts.rates import SEEN

LOG: dict[str, Any] = {"lane": 0, "source": "log"}
CLIENTS: dict[str, Any] = {"lane": 0, "source": "clients"}
LAW = {name: KEPT[name] for name in ("excess", "excess_share", "largest", "admitted")}


def measured(log: dict[str, Any], clients: dict[str, Any], **others: Any) -> Measures:
    """Measures of a rate that a log and clients tell of, with these totals."""
    laws = [{**LOG, **LAW}, {**CLIENTS, **LAW}]
    return Measures(laws=laws, totals=[{**LOG, **log}, {**CLIENTS, **clients}], **others)


def first(measures: Measures, *trials: Trial) -> Finding:
    return judged(Run(RunFacts("r1", "", ""), trials or (trial(),)), measures)[0]


@pytest.mark.parametrize(
    ("policy", "answered", "under_way"),
    [
        # Clients were refused 12 times more than they were admitted, the log tells of 5 of these.
        ("max_publish_rate", 112, 7),
        ("max_publish_rate", 104, 0),
        # Of what passed to consumers 10 had not arrived.
        ("max_dispatch_rate", 104, 10),
        ("max_dispatch_rate", 120, 15),
    ],
)
def test_what_only_clients_tell_of_is_under_way(policy: str, answered: int, under_way: int) -> None:
    log = {"admitted_messages": 110, "refused_messages": 5}
    measures = measured(log, {"admitted_messages": 100, "answered": answered})
    assert figures_of(0, trial(policy), measures)["under_way"] == under_way


@pytest.mark.parametrize(
    ("clients", "table", "row"),
    [
        (241, "carried", {"carried_messages": 9}),
        (199, "unanswered", {"unanswered": 9}),
    ],
)
def test_messages_at_either_end_of_a_phase_are_no_contradiction(
    clients: int, table: str, row: dict[str, int]
) -> None:
    log, seen = ({"admitted_messages": count, "limited": 1} for count in (220, clients))
    assert first(measured(log, seen)).verdict is Verdict.DISPUTED
    measures = measured(log, seen, **{table: [{**CLIENTS, **row}]})
    (name,) = row
    assert figures_of(0, trial(), measures)[f"{SEEN}{name}"] == 9
    assert first(measures).verdict is Verdict.EXACT


def test_one_large_operation_is_no_contradiction() -> None:
    log, seen = {"admitted_messages": 220, "limited": 1}, {"admitted_messages": 236}
    assert first(measured(log, seen)).verdict is Verdict.DISPUTED
    assert first(measured({**log, "largest_messages": 5}, seen)).verdict is Verdict.EXACT


def test_refusals_by_no_policy_of_the_topic_are_misattributed() -> None:
    log = {"admitted_messages": 220, "otherwise": 3, "limited": 0}
    off = first(measured(log, log))
    assert off.verdict is Verdict.OFF
    assert "3 refused in the name of another policy" in off.text
    # Another policy of the topic may have refused them, and a limit that held some was asked.
    others = trial("max_message_size", 9)
    assert first(measured(log, log), trial(), others).verdict is Verdict.EXACT
    assert first(measured({**log, "limited": 1}, log)).verdict is Verdict.EXACT


def test_refusals_that_the_log_lacks_are_a_contradiction() -> None:
    bounded = {"trial": 0, "above": 40, "up_to": 60, "refused": 40, "otherwise": 0}
    bounded |= {"wrongly_admitted": 0, "wrongly_refused": 0}
    for log_refused, verdict in ((40, Verdict.EXACT), (38, Verdict.EXACT), (37, Verdict.DISPUTED)):
        measures = Measures(bounded=[bounded], rejected=[{"trial": 0, "log_refused": log_refused}])
        assert first(measures, trial("max_message_size", 9)).verdict is verdict


def test_clients_below_two_limits_do_not_tell_which_one_held_them() -> None:
    owed = [{**CLIENTS, "owed": 100.0, "given": 50.0}]
    measures = Measures(laws=[{**CLIENTS, **LAW}], totals=[{**CLIENTS, "limited": 1}], owed=owed)
    planned = trial(saturated=False)
    assert first(measures, planned).verdict is Verdict.OFF
    assert first(measures, planned, trial("max_publish_rate_bytes", 9)).verdict is Verdict.EXACT
    assert first(measures, trial(), trial("max_publish_rate_bytes", 9)).verdict is Verdict.OFF
