"""Policy `business_hours`: when a topic takes messages, such as `Mon-Fri 08:00-18:00`."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import Annotated, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

from sluicegate.api import (
    Action,
    Check,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    PolicyModel,
    Reason,
    TopicName,
    TopicState,
    hookimpl,
)

POLICY = "business_hours"
ZONE = "business_hours_zone"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FORM = re.compile(r"(\w{3})-(\w{3}) (\d\d):(\d\d)-(\d\d):(\d\d)")
_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of some days of the week, in one time zone."""

    days: frozenset[int]
    """0 is Monday."""
    begin: int
    """Minute of the day."""
    end: int
    zone: ZoneInfo

    @classmethod
    def of(cls, text: str, zone: str) -> "Hours":
        """Read hours as the policy file has them.

        :raises ValueError: if they are none, or there is no such zone.
        """
        form = _FORM.fullmatch(text)
        if form is None or not {form[1], form[2]} <= set(DAYS):
            raise ValueError(f"{text!r} are no hours, expected such as 'Mon-Fri 08:00-18:00'")
        first, last = DAYS.index(form[1]), DAYS.index(form[2])
        begin, end = int(form[3]) * 60 + int(form[4]), int(form[5]) * 60 + int(form[6])
        if not begin < end <= _DAY:
            raise ValueError(f"{text!r} end before they begin; write 24:00 for the end of a day")
        days = frozenset((first + each) % 7 for each in range((last - first) % 7 + 1))
        try:
            return cls(days, begin, end, ZoneInfo(zone))
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"there is no time zone {zone!r}, expected such as 'Europe/Berlin'") from None

    def at(self, wall_ms: int) -> tuple[bool, int]:
        """Whether a time is within these hours, and until when that stays so, in ms since 1970."""
        now = datetime.fromtimestamp(wall_ms / 1000, self.zone)
        minute = now.hour * 60 + now.minute
        is_open = now.weekday() in self.days and self.begin <= minute < self.end
        for ahead in range(8):
            midnight = datetime.combine(now.date() + timedelta(ahead), time_of_day(), self.zone)
            if midnight.weekday() in self.days:
                edge = midnight + timedelta(minutes=self.end if is_open else self.begin)
                edge_ms = int(edge.timestamp() * 1000)
                if edge_ms > wall_ms:
                    return is_open, edge_ms
        raise AssertionError("a week has no edge")


def _hours(text: str) -> str:
    Hours.of(text, "UTC")
    return text


def _zone(zone: str) -> str:
    Hours.of("Mon-Sun 00:00-24:00", zone)
    return zone


class BusinessHoursPolicies(PolicyModel):
    """The fields that every level of the policy file accepts; None is unset and inherits."""

    parameters: ClassVar[frozenset[str]] = frozenset({ZONE})
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {ZONE: "UTC"}

    business_hours: Annotated[str, AfterValidator(_hours)] | None = None
    """When a topic takes messages, such as `Mon-Fri 08:00-18:00`; always if unset."""
    business_hours_zone: Annotated[str, AfterValidator(_zone)] | None = None
    """Time zone of these hours, such as `Europe/Berlin`; UTC if unset."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the fields."""
    return BusinessHoursPolicies


@hookimpl
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Refuse publishing outside the hours."""
    text = policies.text(POLICY, "")
    if not text:
        return []
    hours = Hours.of(text, policies.text(ZONE, "UTC"))
    gateway = context.context
    wall_ms = gateway.wall_ms if gateway is not None else lambda: time.time_ns() // 1_000_000
    is_open, until_ms = False, 0

    def check(op: Operation, now_ns: int) -> Decision | None:
        # Calendars are slow; they are asked only when the hours begin or end.
        nonlocal is_open, until_ms
        at_ms = wall_ms()
        if at_ms >= until_ms:
            is_open, until_ms = hours.at(at_ms)
        if is_open:
            return None
        opens = datetime.fromtimestamp(until_ms / 1000, hours.zone)
        why = (
            f"Topic {topic.full} takes messages {text} ({hours.zone}). It opens on {opens:%a %d %b at %H:%M}."
        )
        return Decision(
            Action.REJECT, (Reason(POLICY, Outcome.PRECONDITION, why, level=policies.level(POLICY)),)
        )

    return [Check(POLICY, (OperationKind.PUBLISH,), check)]
