"""Processes that the runner starts."""

import sys
from pathlib import Path

import pytest
from tests.waiting import LONG_S

from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.children import ClockOffset, Talker, clock_offset


def test_a_clock_is_compared_with_the_middle_of_the_question() -> None:
    # Asked at 1000 us, heard at 1400 us: an answer of 1700 us is 500 us ahead of the middle, +- 200 us.
    assert clock_offset(1_000_000, 1_700_000, 1_400_000) == ClockOffset(500.0, 200.0)


async def test_a_process_that_ends_is_reported_with_its_last_output(tmp_path: Path) -> None:
    async with Talker(
        "the gateway", "sluicegate_reports.runner.host", ["/nowhere.json"], tmp_path / "log"
    ) as gate:
        with pytest.raises(UnavailableError, match=r"the gateway ended; its last words: .*FileNotFoundError"):
            await gate.hear("ready", LONG_S)


async def test_a_process_that_is_silent_is_ended(tmp_path: Path) -> None:
    async with Talker(
        "sleeper", "timeit", ["-n1", "-r1", "import sys; sys.stdin.read()"], tmp_path / "log"
    ) as one:
        with pytest.raises(UnavailableError, match="sleeper said nothing for 0 s"):
            await one.hear("ready", 0.1)
    assert one.argv[0] == sys.executable
