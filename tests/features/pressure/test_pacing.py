"""Questions that are asked less often than one looks."""

import asyncio

import pytest

from sluicegate.features.pressure.pacing import Paced


async def test_an_abandoned_query_counts_as_failed() -> None:
    """Its last answer would look fresh otherwise."""
    now_ns = 0
    hangs = False

    async def ask() -> int:
        if hangs:
            await asyncio.Event().wait()
        return 7

    paced = Paced(ask, 1_000, lambda: now_ns)
    assert await paced.read() == 7
    hangs, now_ns = True, 1_000_000_000
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await paced.read()
    with pytest.raises(TimeoutError, match="cancelled"):
        await paced.read()
    hangs, now_ns = False, 2_000_000_000
    assert await paced.read() == 7
