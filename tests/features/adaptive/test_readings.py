"""Sources that are silent, slow or wrong: what they said last stays, and the log says so."""

import asyncio
import logging
from collections.abc import Mapping

import pytest
from tests.features.adaptive.lab import Lab

from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.features.adaptive.readings import Readings
from sluicegate.features.adaptive.settings import MEMORY_HIGH, MEMORY_LOW
from sluicegate.testing import ManualClock

LOG = logging.getLogger("sluicegate.plugin.adaptive")
S = 1_000_000_000


class Source:
    """Answers what it is told to, after it is let to."""

    def __init__(self, value: object = 0.5) -> None:
        self.value = value
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = 0
        self.given_up = 0

    async def read(self) -> float:
        self.asked += 1
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)


def readings(*sources: Source) -> Readings:
    made = [PressureSource(f"m{place}", "memory", source.read) for place, source in enumerate(sources)]
    return Readings(made, LOG)


@pytest.mark.seed("S5-021", "S5-055")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "is unknown"),
        (OSError("gone"), "OSError: gone"),
        (SystemExit("gone"), "SystemExit: gone"),
        (KeyboardInterrupt("gone"), "KeyboardInterrupt: gone"),
        (GeneratorExit("gone"), "GeneratorExit: gone"),
        (asyncio.CancelledError(), "it cancelled itself"),
        (float("nan"), "expected a share of 0 or more, got nan"),
        (float("inf"), "got inf"),
        (-0.1, "got -0.1"),
        ("half", "got 'half'"),
    ],
)
async def test_without_a_value_the_last_one_stays(
    value: object, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(0.8)
    found = readings(source)
    await found.refresh(1000, S)
    assert (found.memory, found.all[0].known) == (0.8, True)
    source.value = value
    for second in range(2, 5):
        await found.refresh(1000, second * S)
    assert found.memory == 0.8
    assert (found.all[0].known, found.all[0].failures) == (False, 3)
    [line] = caplog.messages
    assert line.startswith("pressure source m0 is unknown, its last value stays in effect: ")
    assert problem in line
    source.value = 0.2
    await found.refresh(1000, 5 * S)
    assert (found.memory, found.all[0].known) == (0.2, True)
    assert caplog.messages[1:] == ["pressure source m0 is known again"]


@pytest.mark.seed("S5-055")
async def test_a_source_that_has_never_answered_is_no_pressure(caplog: pytest.LogCaptureFixture) -> None:
    found = readings(Source(OSError("down")))
    await found.refresh(1000, S)
    assert found.memory == 0.0
    assert caplog.messages == [
        "pressure source m0 is unknown, it counts as no pressure: OSError: down",
    ]


@pytest.mark.seed("S5-055")
async def test_the_log_says_it_at_most_once_in_60_s(caplog: pytest.LogCaptureFixture) -> None:
    found = readings(Source(None))
    for second in range(1, 122):
        await found.refresh(1000, second * S)
    assert len(caplog.messages) == 3


@pytest.mark.seed("S5-021")
async def test_the_fullest_memory_counts() -> None:
    found = readings(Source(0.3), Source(0.6), Source(0.1))
    await found.refresh(1000, S)
    assert found.memory == 0.6


@pytest.mark.seed("S5-055", "S5-056")
async def test_a_slow_source_delays_no_other_and_counts_once_it_answers() -> None:
    slow, quick = Source(0.9), Source(0.1)
    slow.may_answer.clear()
    found = readings(slow, quick)
    await found.refresh(10, S)
    assert found.memory == 0.1
    slow.may_answer.set()
    await found.refresh(1000, S + 10_000_000)
    assert found.memory == 0.9
    assert slow.asked == 1


@pytest.mark.seed("S5-055", "S5-056")
async def test_a_source_that_hangs_is_given_up_after_three_intervals_and_asked_again() -> None:
    hangs, clock = Source(0.9), ManualClock(S)
    hangs.may_answer.clear()
    found = readings(hangs)
    for _ in range(6):
        await found.refresh(10, clock())
        clock.advance(1)
    assert "no answer within 5 s" in found.all[0].problem
    assert found.all[0].failures == 1
    await found.refresh(10, clock())
    assert hangs.asked == 2
    assert hangs.given_up == 1


@pytest.mark.seed("S5-022", "S5-055")
async def test_of_several_backlogs_the_one_nearest_to_its_quota_counts() -> None:
    async def one() -> Mapping[str, Backlog]:
        return {"t": Backlog(50, 100), "whole": Backlog(1, 1)}

    async def other() -> Mapping[str, Backlog]:
        return {"t": Backlog(900, 1000), "unbounded": Backlog(10**12, -1)}

    async def wrong() -> Mapping[str, Backlog]:
        return [1]  # type: ignore[return-value]

    sources = [PressureSource(read.__name__, "backlog", read) for read in (one, other, wrong)]
    found = Readings(sources, LOG)
    await found.refresh(1000, S)
    assert found.backlog(("t",)) == Backlog(900, 1000)
    assert found.backlog(("t-partition-0", "whole")) == Backlog(1, 1)
    assert found.backlog(("unbounded",)) == Backlog(10**12, -1)
    assert found.backlog(("nowhere",)) is None
    assert "expected backlogs by topic, got [1]" in found.all[2].problem


@pytest.mark.seed("S5-055")
def test_an_active_limit_outlives_its_source() -> None:
    lab = Lab(settings={MEMORY_LOW: 0.70, MEMORY_HIGH: 0.85})
    lab.learn(1000)
    lab.memory = 0.9
    lab.cycle(times=2)
    lab.memory = None
    lab.cycle(times=10)
    assert lab.topic().limiter.switch.on
    assert lab.topic().messages_per_s == 100
    lab.memory = 0.1
    lab.cycle()
    assert not lab.topic().limiter.switch.on


@pytest.mark.seed("S5-057", "S5-091")
def test_controllers_decide_alone() -> None:
    """Of two gateways the one that sees pressure throttles, and the other knows nothing of it."""
    one, other = Lab(), Lab()
    for lab in (one, other):
        lab.learn(1000)
    one.press(0.95)
    one.cycle()
    other.cycle()
    assert (one.topic().active, other.topic().active) == (True, False)


def test_without_sources_there_is_nothing_to_do_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(sources=())
    lab.learn(1000)
    assert not lab.topic().active
    assert caplog.messages == [
        "adaptive_publish_throttling has no pressure source: configure one under `pressure`",
    ]
