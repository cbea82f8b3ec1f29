"""A comparison run as a directory: `run.json` with its facts, `decisions/` and `observations/` beside it.

The runner writes `run.json` last of all, the jobs read it. What was tried is a list of trials: one policy on
one topic at one arm. Which figures show whether a policy is kept is told by `MEASURED`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sluicegate_reports.places import Location, place, told
from sluicegate_reports.results import NATIVE_DOOR as NATIVE_DOOR
from sluicegate_reports.results import RunFacts

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1
"""Of `run.json`."""
FACTS_FILE = "run.json"
DECISIONS = "decisions"
OBSERVATIONS = "observations"


class RunError(Exception):
    """A run's directory cannot be read: the message says which file, why, and what to do."""


class Family(StrEnum):
    """Policies that the same figures show."""

    RATE = "rate"
    """Messages, bytes or attachments a second; `limit` is the rate."""
    COUNT = "count"
    """How many may be attached at once; `limit` is the number."""
    SIZE = "size"
    """`limit` is the largest payload in bytes."""
    DELAY = "delay"
    """`limit` is how much later messages are delivered, in ms."""
    ASKED_DELAY = "asked_delay"
    """`limit` is the longest delay that a producer may ask for, in ms."""
    UNACKED = "unacked"
    """`limit` is the number of messages that a consumer may have and not have acknowledged."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How a policy is measured."""

    family: Family
    operation: str
    """Operation of the decision log that it decides."""
    unit: str
    """Of its limit."""
    by_subscription: bool = False
    """True if each subscription has a limit of its own."""


_PER_S = {"messages": "messages/s", "bytes": "bytes/s"}


def _rate(operation: str, counted: str, *, by_subscription: bool = False) -> Measured:
    return Measured(Family.RATE, operation, _PER_S[counted], by_subscription)


MEASURED: Mapping[str, Measured] = MappingProxyType(
    {
        "max_producers_per_topic": Measured(Family.COUNT, "attach_producer", "producers"),
        "max_subscriptions_per_topic": Measured(Family.COUNT, "create_subscription", "subscriptions"),
        "max_consumers_per_topic": Measured(Family.COUNT, "attach_consumer", "consumers"),
        "max_consumers_per_subscription": Measured(Family.COUNT, "attach_consumer", "consumers", True),
        "max_publish_rate": _rate("publish", "messages"),
        "max_publish_rate_bytes": _rate("publish", "bytes"),
        "max_dispatch_rate": _rate("dispatch", "messages"),
        "max_dispatch_rate_bytes": _rate("dispatch", "bytes"),
        "max_subscription_dispatch_rate": _rate("dispatch", "messages", by_subscription=True),
        "max_subscription_dispatch_rate_bytes": _rate("dispatch", "bytes", by_subscription=True),
        "max_message_size": Measured(Family.SIZE, "publish", "bytes"),
        "max_unacked_messages_per_consumer": Measured(Family.UNACKED, "dispatch", "messages"),
        "connection_rate_limit": Measured(Family.RATE, "attach", "attachments/s"),
        "fixed_delivery_delay": Measured(Family.DELAY, "dispatch", "ms"),
        "max_delivery_delay": Measured(Family.ASKED_DELAY, "publish", "ms"),
    }
)
"""By the policy's name in the file."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One policy, tried on one topic of one arm in one phase."""

    policy: str
    """Its name in the file, one of MEASURED."""
    system: str
    door: str
    phase: str
    """The phase's name: the column `scenario` of the observations."""
    topic: str
    """Full name, as in the decision log and in the observations."""
    limit: float
    """In the unit that MEASURED tells."""
    start: datetime
    """UTC, by the clients' clock: when clients began."""
    end: datetime
    """When they were told to stop."""
    subscription: str = ""
    """The one that the limit holds for, where each has its own."""
    burst_seconds: float = 1.0
    """Of a rate: how many seconds' worth a full bucket holds."""
    saturated: bool = True
    """Of a rate: whether clients asked for more than the limit all the time, so that less is an error too."""
    nearest: str = ""
    """Why what the system has is only the nearest thing to the policy; then it is never called exact."""
    missing: str = ""
    """Why it was not tried; the figures are missing then."""
    not_applicable: str = ""
    """Why the system has no such policy at this door."""

    @property
    def measured(self) -> Measured:
        """How the policy is measured."""
        return MEASURED[self.policy]

    @property
    def burst(self) -> float:
        """What a full bucket holds, in the limit's unit without the second."""
        return self.limit * self.burst_seconds


@dataclass(frozen=True, slots=True)
class Run:
    """What `run.json` holds."""

    facts: RunFacts
    trials: tuple[Trial, ...] = field(default_factory=tuple)
    version: int = VERSION


def write_run(directory: Path, run: Run) -> Path:
    """Write a run's facts, whole or not at all.

    :param directory: the run's; it exists.
    :raises OSError: if it cannot be written.
    """
    target = directory / FACTS_FILE
    unfinished = target.with_name(f".{FACTS_FILE}.inprogress")
    unfinished.write_bytes(_adapter().dump_json(run, indent=1))
    unfinished.rename(target)
    return target


def read_run(directory: Location) -> Run:
    """Read a run's facts.

    :raises RunError: if there are none, or none that this version reads.
    """
    from pydantic import ValidationError

    path = place(directory) / FACTS_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise RunError(
            f"{str(directory)!r} is no comparison run, it has no {FACTS_FILE}: give the directory that "
            "`sluicegate compare run` made; a run that was ended before its end has none"
        ) from None
    except OSError as error:
        raise RunError(f"cannot read {str(path)!r}: {told(error)}") from None
    try:
        run = _adapter().validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"{str(path)!r} holds no facts of a run: {where}: {first['msg']}".replace(": : ", ": ")
        ) from None
    if run.version > VERSION:
        raise RunError(
            f"{str(path)!r} has version {run.version}, this release reads up to {VERSION}: "
            "read it with the release that wrote it, or a later one"
        )
    for trial in run.trials:
        if trial.policy not in MEASURED:
            known = ", ".join(MEASURED)
            raise RunError(
                f"{str(path)!r}: policy {trial.policy!r} cannot be compared, expected one of {known}"
            )
    return run


@cache
def _adapter() -> "TypeAdapter[Run]":
    from pydantic import TypeAdapter

    return TypeAdapter(Run)
