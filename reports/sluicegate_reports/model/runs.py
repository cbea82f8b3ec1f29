"""A comparison run as a directory: `run.json` with its facts, beside `decisions/` and `observations/`.

The runner writes `run.json` last, and the jobs read it. A run tries policies in trials: one policy on one
topic of one arm. `registry.policies` names the figures that show whether a policy is kept.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate_reports.model.locations import LocationLike, locate, one_line
from sluicegate_reports.model.results import RunFacts, first_mistake
from sluicegate_reports.model.trial import Trial as Trial
from sluicegate_reports.registry import Measured, policies
from sluicegate_reports.registry.measured import Family as Family

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1
"""Of `run.json`."""
FACTS_FILE = "run.json"
DECISIONS = "decisions"
OBSERVATIONS = "observations"


class RunError(Exception):
    """A run's directory cannot be read: the message says which file, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Run:
    """What `run.json` holds."""

    facts: RunFacts
    trials: tuple[Trial, ...] = field(default_factory=tuple)
    version: int = VERSION


def measured_as(trial: Trial) -> Measured:
    """How the policy of a trial is measured."""
    return policies()[trial.policy]


def write_run(directory: Path, run: Run) -> Path:
    """Write a run's facts, whole or not at all.

    :param directory: the run's; it exists.
    :raises OSError: if it cannot be written.
    """
    target = directory / FACTS_FILE
    locate(target).write_bytes(_adapter().dump_json(run, indent=1))
    return target


def read_run(directory: LocationLike) -> Run:
    """Read a run's facts.

    :raises RunError: if there are none, or none that this version reads.
    """
    from pydantic import ValidationError

    path = locate(directory) / FACTS_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RunError(
            f"{str(directory)!r} is no comparison run, it has no {FACTS_FILE}: give the directory that "
            "`sluicegate compare run` made; an interrupted run has none"
        ) from None
    except OSError as error:
        raise RunError(f"cannot read {str(path)!r}: {one_line(error)}") from None
    try:
        run = _adapter().validate_json(content)
    except ValidationError as error:
        raise RunError(f"{str(path)!r} holds no facts of a run: {first_mistake(error)}") from None
    if run.version > VERSION:
        raise RunError(
            f"{str(path)!r} has version {run.version}, this release reads up to {VERSION}: "
            "read it with the release that wrote it, or a later one"
        )
    for trial in run.trials:
        if trial.policy not in policies():
            known = ", ".join(policies())
            raise RunError(
                f"{str(path)!r}: policy {trial.policy!r} cannot be compared, expected one of {known}"
            )
        if problem := _problem(trial):
            where = f"{trial.policy} of {trial.system} {trial.door}, phase {trial.phase!r}"
            raise RunError(f"{str(path)!r}: {where}: {problem}")
    if any(time.tzinfo is None for time in _times(run.facts)):
        raise RunError(f"{str(path)!r}: times of its facts need a time zone, such as Z")
    in_utc: Run = _in_utc(run)
    return in_utc


def _problem(trial: Trial) -> str:
    """Why nothing can be compared with what a trial says; empty if it can."""
    if trial.missing or trial.not_applicable:
        return ""
    rate = measured_as(trial).family is Family.RATE
    if not math.isfinite(trial.limit) or trial.limit < 0 or (rate and not trial.limit):
        return f"limit is {trial.limit!r}, expected a number {'above 0' if rate else 'of at least 0'}"
    if rate and not (math.isfinite(trial.burst_seconds) and trial.burst_seconds > 0):
        return f"burst_seconds is {trial.burst_seconds!r}, expected a number above 0"
    if trial.start.tzinfo is None or trial.end.tzinfo is None:
        return "start and end need a time zone, such as Z"
    if trial.end <= trial.start:
        return f"end {trial.end.isoformat()} is not after start {trial.start.isoformat()}"
    return ""


def _times(value: Any) -> Iterator[datetime]:
    """All times in a value."""
    if isinstance(value, datetime):
        yield value
    for part in value if isinstance(value, tuple) else _parts(value).values():
        yield from _times(part)


def _in_utc(value: Any) -> Any:
    """The same with all its times in UTC, in which they are shown; what was not tried may lack a zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, tuple):
        return tuple(map(_in_utc, value))
    parts = _parts(value)
    return replace(value, **{name: _in_utc(part) for name, part in parts.items()}) if parts else value


def _parts(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)} if is_dataclass(value) else {}


@cache
def _adapter() -> "TypeAdapter[Run]":
    from pydantic import TypeAdapter

    return TypeAdapter(Run)
