"""Lanes: the trials of rates; and tries: those of other families."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.transforms.ahead import Ahead, ahead_at
from sluicegate_reports.transforms.packed import Key


class Lane(NamedTuple):
    """The trial of a rate."""

    number: int
    """The trial's index in the run's list."""
    policy: str
    system: str
    door: str
    topic: str | None
    """None of a limit that holds over all topics."""
    subscription: str | None
    operation: str
    counts: str
    """What the rate is of: messages, bytes or attachments."""
    rate: float
    burst: float
    saturated: bool
    full: bool
    """False of a trial that follows others on its topic, whose bucket may be spent."""
    begin_us: int
    """us since 1970, by the clients' clock."""
    end_us: int
    gate_begin_us: int
    """By the gateway's clock."""
    gate_end_us: int

    @property
    def length_us(self) -> int:
        """How long it lasted."""
        return self.end_us - self.begin_us

    @property
    def topic_key(self) -> tuple[str, str, str | None]:
        """System, door and topic of its rows, see `packed.Topic`."""
        return self.system, self.door, self.topic


_EPOCH = datetime.fromtimestamp(0, UTC)
_US = 1_000_000


def lanes(trials: Sequence[Trial], clocks: Ahead = MappingProxyType({})) -> list[Lane]:
    """The trials of rates that were carried out.

    :param clocks: by how much gateways' clocks are ahead.
    """
    first: dict[tuple[str, str, str], datetime] = {}
    for trial in trials:
        topic_key = (trial.system, trial.door, trial.topic)
        first[topic_key] = min(first.get(topic_key, trial.start), trial.start)
    tried = []
    for number, trial in enumerate(trials):
        if measured_as(trial).family is not Family.RATE or trial.missing or trial.not_applicable:
            continue
        begin, end = microseconds(trial.start), microseconds(trial.end)
        later = round(ahead_at(clocks, (trial.system, trial.door), begin))
        tried.append(
            Lane(
                number,
                trial.policy,
                trial.system,
                trial.door,
                trial.topic or None,
                trial.subscription or None,
                measured_as(trial).operation,
                measured_as(trial).unit.partition("/")[0],
                float(trial.limit),
                float(trial.burst),
                trial.saturated,
                trial.start <= first[trial.system, trial.door, trial.topic],
                begin,
                end,
                begin + later,
                end + later,
            )
        )
    return tried


class Try(NamedTuple):
    """The trial of another family; times are us since 1970, by the clients' clock."""

    trial: int
    """Its index in the run's list."""
    policy: str
    system: str
    door: str
    phase: str
    topic: str
    subscription: str | None
    limit: float
    begin_us: int
    end_us: int

    @property
    def topic_key(self) -> tuple[str, str, str]:
        """System, door and topic of its rows, see `packed.Topic`."""
        return self.system, self.door, self.topic


def tries(trials: Sequence[Trial], *families: Family) -> list[Try]:
    """The trials of some families that were carried out."""
    return [
        Try(
            number,
            trial.policy,
            trial.system,
            trial.door,
            trial.phase,
            trial.topic,
            trial.subscription or None,
            float(trial.limit),
            microseconds(trial.start),
            microseconds(trial.end),
        )
        for number, trial in enumerate(trials)
        if measured_as(trial).family in families and not trial.missing and not trial.not_applicable
    ]


def tried_at(topic_key: Key, tried: Sequence[Try]) -> list[Try]:
    """Those that look at the rows of a topic."""
    return [each for each in tried if each.topic_key == topic_key]


def microseconds(moment: datetime) -> int:
    """A time as us since 1970."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * _US + since.microseconds


def moment(at_us: int) -> datetime:
    """The time that is so many us after 1970."""
    return _EPOCH + timedelta(microseconds=at_us)
