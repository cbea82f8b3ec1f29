"""What can still be told of a system when one of its files is damaged.

The remaining rows prove what was done too much: admitted above a limit, delivered twice or early. What seems
to be missing may be in the damaged part. So nothing is called lost, refused without need or below a limit.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from sluicegate_reports import registry
from sluicegate_reports.jobs.figures import source_of
from sluicegate_reports.jobs.measuring import Measures, Row
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.spark.log_files import LeftOut
from sluicegate_reports.spark.reading import Log
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.verdicts import Figures, Finding, judge
from sluicegate_reports.verdicts.rates import SEEN

_FOREIGN = "is no "
"""A file left out for this reason never was a part of the log."""
_PARTITION = re.compile(r"/system=([^/]*)/")
_ALL = "*"
_KEPT = (Verdict.EXACT, Verdict.WITHIN, Verdict.UNCONFIRMED)


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The systems whose decision log, or whose observations, lack a part."""

    log: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()

    @classmethod
    def of(cls, decisions: Log, observations: Log) -> Self:
        """By the files that were left out."""
        return cls(_systems(decisions.left_out), _systems(observations.left_out))

    def lacks_log(self, trial: Trial) -> bool:
        """Whether the decision log of a trial is incomplete."""
        return registry.door(trial.door).gate and not self.log.isdisjoint((trial.system, _ALL))

    def lacks_seen(self, system: str) -> bool:
        """Whether the observations of a system are."""
        return not self.seen.isdisjoint((system, _ALL))


def _systems(left_out: Iterable[LeftOut]) -> frozenset[str]:
    parts = [str(each.path) for each in left_out if not each.reason.startswith(_FOREIGN)]
    matches = [_PARTITION.search(part) for part in parts]
    return frozenset(match[1] if match else _ALL for match in matches)


def certain(measures: Measures, trials: Sequence[Trial], lacking: Incomplete) -> Measures:
    """The measures without those that a missing part would change the wrong way."""
    if not lacking.log and not lacking.seen:
        return measures

    def is_lacking(number: int, source: str) -> bool:
        trial = trials[number]
        return lacking.lacks_log(trial) if source == LOG else lacking.lacks_seen(trial.system)

    def attachment(row: Row) -> Row:
        refused = row["event"] == "attach_refused" and is_lacking(row["trial"], CLIENTS)
        return {**row, "wrong": 0} if refused else row

    def delivery(row: Row) -> Row:
        return {**row, "lost": None, "unread": None} if lacking.lacks_seen(row["system"]) else row

    return replace(
        measures,
        owed=[row for row in measures.owed if not is_lacking(row["lane"], row["source"])],
        judged=[row for row in measures.judged if not is_lacking(row["lane"], LOG)],
        attachments=[attachment(row) for row in measures.attachments],
        deliveries=[delivery(row) for row in measures.deliveries],
    )


def by_the_rest(
    number: int, trial: Trial, figures: Figures, finding: Finding, measures: Measures, lacking: Incomplete
) -> Finding:
    """The verdict on a trial, as far as the rest of the files can tell.

    :param finding: what its figures alone show, see `certain`.
    """
    log, seen = lacking.lacks_log(trial), lacking.lacks_seen(trial.system)
    if not (log or seen) or trial.missing or trial.not_applicable:
        return finding
    why = " and ".join([*["decision log"] * log, *["observations"] * seen])
    both = measured_as(trial).family is Family.RATE and source_of(number, measures) == LOG
    if both and finding.verdict is Verdict.DISPUTED:
        finding = _by_the_whole_one(trial, figures, finding, log=log, seen=seen)
    elif finding.verdict in _KEPT and (seen if not both else log and seen):
        finding = Finding(Verdict.MISSING, text=finding.text)
    # The other source is whole and agrees.
    elif finding.verdict in _KEPT:
        return finding
    return replace(finding, text=f"a part of the {why} is lost; by the rest: {finding.text}")


def _by_the_whole_one(trial: Trial, figures: Figures, finding: Finding, *, log: bool, seen: bool) -> Finding:
    """The verdict by the log alone or by the clients alone, where the other one is incomplete."""
    of_clients = {name.removeprefix(SEEN): value for name, value in figures.items() if name.startswith(SEEN)}
    rest = {name: value for name, value in figures.items() if not name.startswith(SEEN)}
    clients = judge(trial, {**rest, **of_clients, "judged": None, "wrongly_admitted": None})
    if not seen or clients.verdict is Verdict.OFF:
        return clients
    if log:
        return Finding(Verdict.MISSING, text=finding.text)
    return judge(trial, {**rest, f"{SEEN}admitted": None})
