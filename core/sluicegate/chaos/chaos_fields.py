"""The policies, and the times and percentages that they are written in."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Self, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from sluicegate.config import Count, Duration, MessageRate, PolicyModel
from sluicegate.config.secrets import shown_value
from sluicegate.config.units import refuse

LATENCY = "chaos_latency"
REFUSAL = "chaos_refusal"
DROP = "chaos_drop"
KILL = "chaos_kill"
CORRUPT = "chaos_corrupt"
SLOW_CONSUMER = "chaos_slow_consumer"
UNTIL = "chaos_until"
SEED = "chaos_seed"
FAULTS = (LATENCY, REFUSAL, DROP, KILL, CORRUPT, SLOW_CONSUMER)
LONGEST = timedelta(hours=24)
"""How far ahead `chaos_until` may be."""
_SLACK = timedelta(minutes=5)
"""Clients that get policies from a gateway check them again, by clocks of their own."""

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_HOW_TO_WRITE_PERCENT = "write a percentage of 0% to 100%, such as 5%"
_HOW_TO_WRITE_TIME = "write a time with its zone within the next 24 hours, such as {example}"


def share_of(text: str) -> float:
    """The share that a percentage means, 0.0 to 1.0; 0.0 if there is none."""
    return float(text.removesuffix("%") or 0) / 100


def time_of(text: str) -> float:
    """Seconds since 1970 of a time in its stored form."""
    return datetime.fromisoformat(text).timestamp()


def _percent(value: object) -> str:
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not 0 <= float(match[1]) <= 100:
        raise refuse(f"{shown_value(value)} is no percentage", _HOW_TO_WRITE_PERCENT)
    return f"{match[1]}%"


def _end_time(value: object) -> str:
    now = datetime.now(UTC)
    example = (now + timedelta(hours=1)).isoformat(timespec="minutes").replace("+00:00", "Z")
    remedy = _HOW_TO_WRITE_TIME.format(example=example)
    try:
        end = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
        end = end.astimezone(UTC) if end is not None and end.tzinfo is not None else None
    except (ValueError, OverflowError):  # the latter at either end of the calendar
        end = None
    if end is None:
        raise refuse(f"{shown_value(value)} is no time with a zone", remedy)
    if end - now > LONGEST + _SLACK:
        raise refuse(f"{shown_value(value)} is more than 24 hours ahead", remedy)
    return end.isoformat().replace("+00:00", "Z")


Percent: TypeAlias = Annotated[
    str, BeforeValidator(_percent), WithJsonSchema({"type": "string", "pattern": _PERCENT.pattern})
]
"""A share of operations: `5%`, `0.5%`."""
EndTime: TypeAlias = Annotated[str, BeforeValidator(_end_time), WithJsonSchema({"type": "string"})]
"""A time with its zone: `2026-03-02T18:00Z`."""


class ChaosPolicies(PolicyModel):
    """Faults that are injected to test clients, and when they end."""

    parameters: ClassVar[frozenset[str]] = frozenset({UNTIL, SEED})

    chaos_latency: Duration | None = None
    """How long each publish and each delivery is held; those of one producer or consumer one after the other.
    Keep it below `max_hold`, after which a broker refuses what is held."""
    chaos_refusal: Percent | None = None
    """Publishes that are refused, as by a limit with `on_limit: reject`."""
    chaos_drop: Percent | None = None
    """Publishes and deliveries that are discarded without an error. Only messages without a delivery
    guarantee are: publishes with acks=0, and deliveries of topics that store nothing; all others pass."""
    chaos_kill: Percent | None = None
    """Publishes and deliveries at which the client's connection is closed; they go no further."""
    chaos_corrupt: Percent | None = None
    """Publishes that are answered with a response that cannot be read; the messages are not stored. Those
    with acks=0, which get no response, pass."""
    chaos_slow_consumer: MessageRate | None = None
    """Messages per second delivered to each subscription of a topic, as if it took no more; 0 is
    unlimited."""
    chaos_until: EndTime | None = None
    """When all of these faults end: a time with its zone, at most 24 hours ahead when it is written. Without
    it nothing is injected."""
    chaos_seed: Count | None = None
    """Begins the chances of percentages: the same operations on a topic meet the same faults then. Any chance
    if unset."""

    @model_validator(mode="after")
    def _faults_have_an_end(self) -> Self:
        faults = {name: getattr(self, name) for name in FAULTS}
        injected = [name for name, value in faults.items() if value and value != "0%"]
        if injected and self.chaos_until is None:
            remedy = "set 'chaos_until' beside it, to a time within the next 24 hours"
            raise refuse(f"{injected[0]!r} has no end", remedy)
        return self
