"""What several gateways and workers did under one limit, and how far their clocks can be trusted."""

from collections.abc import Iterator, Sequence

from sluicegate_reports.jobs.measuring import Measures, Row, Rows
from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Section, Table, Value
from sluicegate_reports.model.runs import Trial, measured_as
from sluicegate_reports.transforms.by_place import PLACE_COLUMNS
from sluicegate_reports.transforms.skew import EVERYBODY

_COLUMNS = ("policy", "phase", "system", "door", "topic", *PLACE_COLUMNS)
_HEADINGS = (*_COLUMNS, "of", "admitted", "refused", "share of the limit (%)")
_MS_US = 1_000
_TEXT = (
    "What each gateway, host and worker admitted and refused under a limit that is judged over all of them, "
    "by their logs. The share is of all that the limit gives in the phase."
)


def fleet_sections(trials: Sequence[Trial], measures: Measures) -> Iterator[Section]:
    """A table, if any limit was kept in several places."""
    several = {lane for lane, rows in _by_lane(measures).items() if len(rows) > 1}
    if several:
        shown = [row for row in measures.places if row["lane"] in several]
        rows = sorted((_line(trials[row["lane"]], row) for row in shown), key=str)
        table = Table(_HEADINGS, tuple(rows), "gateways", "By gateway, host and worker")
        yield Section("Gateways of one limit", _TEXT, tables=(table,), overall=True)


def fleet_notes(trials: Sequence[Trial], measures: Measures) -> Iterator[str]:
    """By how much clocks of several hosts may differ, and how far off verdicts may be for it."""
    arms: dict[tuple[str, str], dict[int, set[str]]] = {}
    for lane, rows in _by_lane(measures).items():
        hosts = {row["host"] for row in rows}
        if len(hosts) > 1:
            arms.setdefault((trials[lane].system, trials[lane].door), {})[lane] = hosts
    for arm, lanes in arms.items():
        hosts = set().union(*lanes.values())
        own = [row for row in measures.skews if (row["system"], row["door"]) == arm]
        apart_us = apart(hosts, own)
        named = ", ".join(host or "an unnamed one" for host in sorted(hosts))
        known = (
            f"as messages show, their clocks differ by {apart_us / _MS_US:,.1f} ms at most, so"
            if apart_us is not None
            else "no message shows by how much their clocks differ, and they are taken to agree; for each ms "
            "of a difference"
        )
        off = "; ".join(_off([trials[lane] for lane in lanes], _MS_US if apart_us is None else apart_us))
        yield (
            f"{' '.join(arm)}: one limit was kept on the hosts {named}: {known} excess and shortfall may be "
            f"off by what the limit gives in that time, {off}"
        )


def apart(hosts: set[str], skews: Rows) -> float | None:
    """The most by which clocks of these hosts can differ, in us; None if nothing bounds it for one of them.

    :param skews: rows of `ahead.skews` of one arm.
    """
    bounds = {}
    for host in hosts:
        own = [row for row in skews if row["host"] == host]
        own = [row for row in own if row["who"] == EVERYBODY] or own
        if not own:
            return None
        ends = [each for row in own for each in (row["at_least_us"], row["at_most_us"])]
        low, high = max(row["at_least_us"] for row in own), min(row["at_most_us"] for row in own)
        # Where none holds for all, a clock drifted, or those of clients differ.
        bounds[host] = (low, high) if low <= high else (min(ends), max(ends))
    differences: list[float] = [
        high - bounds[other][0] for host, (_, high) in bounds.items() for other in hosts - {host}
    ]
    return max(differences)


def _off(trials: Sequence[Trial], apart_us: float) -> Iterator[str]:
    """What the largest limit of each policy gives in a time."""
    largest: dict[str, Trial] = {}
    for trial in trials:
        if trial.policy not in largest or trial.limit > largest[trial.policy].limit:
            largest[trial.policy] = trial
    for policy, trial in sorted(largest.items()):
        unit = measured_as(trial).unit
        amount = quantity(trial.limit * apart_us / 1e6, unit.partition("/")[0])
        yield f"{policy} {amount} at {quantity(trial.limit, unit)}"


def _by_lane(measures: Measures) -> dict[int, Rows]:
    by_lane: dict[int, Rows] = {}
    for row in measures.places:
        by_lane.setdefault(row["lane"], []).append(row)
    return by_lane


def _line(trial: Trial, row: Row) -> tuple[Value, ...]:
    gives = trial.limit * (trial.end - trial.start).total_seconds()
    of = measured_as(trial).unit.partition("/")[0]
    which = (trial.policy, trial.phase, trial.system, trial.door, trial.topic)
    share = round(100 * row["admitted"] / gives, 1)
    return (*which, *(row[name] for name in PLACE_COLUMNS), of, row["admitted"], row["refused"], share)
