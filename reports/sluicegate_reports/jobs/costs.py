"""What a door costs where no limit holds anybody: how soon producers are answered, and messages a second."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeAlias

from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.results import Cell, Cost
from sluicegate_reports.model.runs import Family, Run, measured_as
from sluicegate_reports.registry.arms import DIRECT_DOOR
from sluicegate_reports.transforms.throttle import SHARES

_P50, _P99 = SHARES.index(0.5), SHARES.index(0.99)
_Key: TypeAlias = tuple[str, str, str, str]
"""System, door, topic and phase."""


def costs(run: Run, measures: Measures) -> Mapping[tuple[str, str, str], Cost]:
    """The cost of each cell, by policy, system and door; of several topics and phases the median.

    A phase counts in which clients are not planned to be held: for a rate one that stays below it. With no
    policy nobody is held.
    """
    lengths: dict[_Key, float] = {}
    policies: dict[_Key, set[str]] = {}
    for key, names, length_s in (*_judged(run), *_direct(run)):
        policies.setdefault(key, set()).update(names)
        lengths[key] = min(lengths.get(key, length_s), length_s)
    by_cell: dict[tuple[str, str, str], list[Cost]] = {}
    for row in measures.latencies:
        key = (row["system"], row["door"], row["topic"], row["phase"])
        if lengths.get(key):
            cost = Cost(row["quantiles"][_P50], row["quantiles"][_P99], row["messages"] / lengths[key])
            for policy in policies[key]:
                by_cell.setdefault((policy, row["system"], row["door"]), []).append(cost)
    return {key: _middle(several) for key, several in by_cell.items()}


def priced(cell: Cell, cost_of: Mapping[tuple[str, str, str], Cost]) -> Cell:
    """A cell with what its door costs, and beside it what the system costs with no policy and no gateway."""
    cost = cost_of.get((cell.policy, cell.system, cell.door))
    direct = cost_of.get((cell.policy, cell.system, DIRECT_DOOR)) if cost else None
    return replace(cell, cost=cost, direct=direct)


def _judged(run: Run) -> Iterator[tuple[_Key, tuple[str, ...], float]]:
    """Where trials were made, by which policies, and for how long; 0 where clients are to be held."""
    phases = {phase.name: (phase.end - phase.start).total_seconds() for phase in run.facts.phases}
    for trial in run.trials:
        held = measured_as(trial).family is Family.RATE and trial.saturated
        # The first trial of a count begins with attaching, and messages flow only in the phase itself.
        whole_s = phases.get(f"{trial.phase} ({trial.system} {trial.door})")
        length_s = 0.0 if held else whole_s or (trial.end - trial.start).total_seconds()
        yield (trial.system, trial.door, trial.topic, trial.phase), (trial.policy,), length_s


def _direct(run: Run) -> Iterator[tuple[_Key, tuple[str, ...], float]]:
    """As `_judged`, for the runs with no policy and no gateway."""
    for each in run.facts.baselines:
        key = (each.system, DIRECT_DOOR, each.topic, each.phase)
        yield key, each.policies, (each.end - each.start).total_seconds()


def _middle(several: Sequence[Cost]) -> Cost:
    return Cost(
        median(cost.p50_ms for cost in several),
        median(cost.p99_ms for cost in several),
        median(cost.messages_per_s for cost in several),
    )
