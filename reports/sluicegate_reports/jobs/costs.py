"""What a door costs where no limit holds anybody: how soon producers are answered, and messages a second."""

from collections.abc import Mapping, Sequence
from statistics import median

from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.results import Cost
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.transforms.throttle import SHARES

_P50, _P99 = SHARES.index(0.5), SHARES.index(0.99)


def costs(trials: Sequence[Trial], found: Measures) -> Mapping[tuple[str, str, str], Cost]:
    """The cost of each cell, by policy, system and door; of several topics and phases the median.

    A phase counts in which clients are not planned to be held: for a rate one that stays below it.
    """
    lengths: dict[tuple[str, str, str, str], float] = {}
    policies: dict[tuple[str, str, str, str], set[str]] = {}
    for trial in trials:
        place = (trial.system, trial.door, trial.topic, trial.phase)
        policies.setdefault(place, set()).add(trial.policy)
        lengths[place] = (trial.end - trial.start).total_seconds()
        if measured_as(trial).family is Family.RATE and trial.saturated:
            lengths[place] = 0.0
    told: dict[tuple[str, str, str], list[Cost]] = {}
    for row in found.latencies:
        place = (row["system"], row["door"], row["topic"], row["phase"])
        if lengths.get(place):
            cost = Cost(row["quantiles"][_P50], row["quantiles"][_P99], row["messages"] / lengths[place])
            for policy in policies[place]:
                told.setdefault((policy, row["system"], row["door"]), []).append(cost)
    return {place: _middle(several) for place, several in told.items()}


def _middle(several: Sequence[Cost]) -> Cost:
    return Cost(
        median(cost.p50_ms for cost in several),
        median(cost.p99_ms for cost in several),
        median(cost.messages_per_s for cost in several),
    )
