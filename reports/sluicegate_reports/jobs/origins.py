"""Where the rows behind a figure are: the Parquet files, and a condition in SQL that selects them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sluicegate_reports.model.results import Origin
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS, Family, Trial, measured_as
from sluicegate_reports.registry import door
from sluicegate_reports.registry.arms import PRODUCERS
from sluicegate_reports.transforms.ahead import Ahead, ahead_at
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import microseconds

_ATTACHING = ("attach_producer", "attach_consumer")
_EVENTS = {
    Family.COUNT: ("attached", "attach_refused", "detached"),
    Family.SIZE: ("acknowledged", "refused"),
    Family.ASKED_DELAY: ("acknowledged", "refused"),
    Family.DELAY: ("received",),
    Family.UNACKED: ("attached", "received", "acknowledged"),
}
_RATE_EVENTS = {
    "publish": ("sent", "acknowledged", "refused"),
    "dispatch": ("received",),
    "attach": ("attached", "attach_refused"),
}


def of_trial(run: str, trial: Trial, source: str, clocks: Ahead) -> Origin:
    """The rows that a trial's figures come from.

    :param run: the run's id.
    :param source: `flows.LOG` or `flows.CLIENTS`; of a rate.
    :param clocks: by how much gateways' clocks are ahead.
    """
    family = measured_as(trial).family
    if family is Family.RATE and source == LOG:
        return decisions_of(run, [trial], clocks)
    events = _RATE_EVENTS[measured_as(trial).operation] if family is Family.RATE else _EVENTS[family]
    # Earlier events count too: attached clients, and unacknowledged messages.
    whole = family in (Family.COUNT, Family.UNACKED)
    in_phase = family in (Family.SIZE, Family.ASKED_DELAY, Family.DELAY)
    when = f"time < {_moment(trial.end)}" if whole else _between(trial.start, trial.end)
    return Origin(
        _path(OBSERVATIONS, run, trial.system),
        _all(
            *_arm(trial),
            _equal("role", _role(trial)),
            _one_of("event", events),
            _of_subscription(trial),
            _equal("scenario", trial.phase) if in_phase else when,
        ),
    )


def decisions_of(run: str, trials: Sequence[Trial], clocks: Ahead) -> Origin:
    """The decisions about trials of one policy and arm, of which only the phase differs.

    Of a door without a gateway, what clients saw. See `of_trial`.
    """
    first = trials[0]
    if not door(first.door).gate:
        return of_trial(run, first, CLIENTS, clocks)
    operation = measured_as(first).operation
    kinds = _ATTACHING if operation == "attach" else (operation,)
    start, end = min(trial.start for trial in trials), max(trial.end for trial in trials)
    later = timedelta(microseconds=ahead_at(clocks, (first.system, first.door), microseconds(start)))
    return Origin(
        _path(DECISIONS, run, first.system),
        _all(
            *_arm(first),
            _one_of("operation", kinds),
            _of_subscription(first),
            _between(start + later, end + later),
        ),
    )


def of_log(run: str, system: str, **columns: str) -> Origin:
    """Rows of the decision log with these values."""
    return Origin(_path(DECISIONS, run, system), _all(*(_equal(*each) for each in columns.items())))


def of_clients(run: str, system: str, events: tuple[str, ...], **columns: str) -> Origin:
    """Rows of the observations with these values, of some kinds of event."""
    conditions = [_equal(*each) for each in columns.items()]
    return Origin(_path(OBSERVATIONS, run, system), _all(*conditions, _one_of("event", events)))


def _role(trial: Trial) -> str:
    if trial.policy == PRODUCERS or measured_as(trial).operation == "publish":
        return "producer"
    return "" if measured_as(trial).operation == "attach" else "consumer"


def _arm(trial: Trial) -> tuple[str, str]:
    return _equal("door", trial.door), _equal("topic", trial.topic)


def _of_subscription(trial: Trial) -> str:
    return _equal("subscription", trial.subscription)


def _path(what: str, run: str, system: str) -> str:
    return f"{what}/run={run}/system={system}/*.parquet"


def _all(*conditions: str) -> str:
    return " AND ".join(condition for condition in conditions if condition)


def _equal(column: str, value: str) -> str:
    """A condition; none for an empty value."""
    return f"{column} = {_quoted(value)}" if value else ""


def _one_of(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(map(_quoted, values))})"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _between(start: datetime, end: datetime) -> str:
    return f"time >= {_moment(start)} AND time < {_moment(end)}"


def _moment(time: datetime) -> str:
    return f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}+00:00'"
