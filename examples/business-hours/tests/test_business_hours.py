"""Hours by the calendar, and the check in a time of its own. No gateway is needed."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
import sluicegate_business_hours as plugin
from pydantic import ValidationError

from sluicegate.api import Action, Operation, OperationKind
from sluicegate.testing import ManualClock, ManualContext, build_gate

BERLIN = "Europe/Berlin"
PUBLISH = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=1, largest=1)


def ms(text, zone=BERLIN):
    """The time in ms since 1970."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("hours", "now", "is_open", "until"),
    [
        ("Mon-Fri 08:00-18:00", "2026-03-02T07:59:59", False, "2026-03-02T08:00"),
        ("Mon-Fri 08:00-18:00", "2026-03-02T08:00", True, "2026-03-02T18:00"),
        ("Mon-Fri 08:00-18:00", "2026-03-06T18:00", False, "2026-03-09T08:00"),
        ("Fri-Mon 00:00-24:00", "2026-03-03T12:00", False, "2026-03-06T00:00"),
        ("Sun-Sun 01:00-04:00", "2026-03-29T01:30", True, "2026-03-29T04:00"),  # clocks go forward at 02:00
        ("Sun-Sun 01:00-04:00", "2026-03-29T04:00", False, "2026-04-05T01:00"),
    ],
)
def test_hours_follow_the_calendar(hours, now, is_open, until):
    assert plugin.Hours.of(hours, BERLIN).at(ms(now)) == (is_open, ms(until))


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        ({"business_hours": "8 to 6"}, "expected such as 'Mon-Fri 08:00-18:00'"),
        ({"business_hours": "Mon-Fry 08:00-18:00"}, "expected such as 'Mon-Fri 08:00-18:00'"),
        ({"business_hours": "Mon-Fri 18:00-08:00"}, "end before they begin"),
        ({"business_hours_zone": "Europe/Atlantis"}, "there is no time zone 'Europe/Atlantis'"),
        ({"business_hours_zone": "../etc/passwd"}, "there is no time zone"),
    ],
)
def test_what_is_no_time_is_a_mistake_of_the_file(policies, problem):
    with pytest.raises(ValidationError, match=problem):
        build_gate(policies, [plugin], now_ns=0)


def test_publishing_is_refused_outside_the_hours_and_passes_within():
    clock = ManualClock(ms("2026-03-06T17:59:59") * 1_000_000)
    policies = {"business_hours": "Mon-Fri 08:00-18:00", "business_hours_zone": BERLIN}
    gate = build_gate(policies, [plugin], now_ns=clock(), context=ManualContext(clock))
    assert gate.publish(PUBLISH, clock()) is None
    clock.advance(seconds=1)
    refused = gate.publish(PUBLISH, clock())
    assert (refused.action, refused.text) == (
        Action.REJECT,
        "Topic orders.eu takes messages Mon-Fri 08:00-18:00 (Europe/Berlin). "
        "It opens on Mon 09 Mar at 08:00.",
    )
    clock.advance(seconds=62 * 3600)
    assert gate.publish(PUBLISH, clock()) is None


def test_without_the_policy_there_is_no_check():
    assert not build_gate({}, [plugin], now_ns=0, builtin=False).asks(OperationKind.PUBLISH)
