"""Signals that end a run."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate_reports.runner.shown import _until_signalled


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    number: signal.Signals = request.param
    before = signal.getsignal(number)
    yield number
    signal.signal(number, before)


async def _signalled(number: signal.Signals) -> Any:
    signal.raise_signal(number)
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_handles_a_signal_already_goes_on_to_do_so(number: signal.Signals) -> None:
    """As `sluicegate demo` does, of which a run is a part."""
    seen: list[int] = []
    signal.signal(number, lambda number, _: seen.append(number))
    for _ in range(2):
        asyncio.run(_until_signalled(_signalled(number)))
    assert seen == [number] * 2


def test_a_signal_that_is_ignored_ends_nothing(number: signal.Signals) -> None:
    """`nohup` ignores SIGHUP."""
    signal.signal(number, signal.SIG_IGN)
    asyncio.run(_until_signalled(_signalled(number)))
    assert signal.getsignal(number) is signal.SIG_IGN
