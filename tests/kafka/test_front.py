"""The front's own requests to the broker."""

import asyncio
import time

import pytest
from tests.kafka.session.wire import Bench

from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.shared.listing import ListGroups


async def test_concurrent_questions_share_one_request_to_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    front = KafkaFront(
        KafkaConfig.model_validate(
            {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
        )
    )
    asked = 0
    told = asyncio.Event()

    async def nodes() -> dict[int, tuple[str, int]]:
        return {}

    async def groups() -> dict[str, set[str]]:
        nonlocal asked
        asked += 1
        await told.wait()
        return {"t": {"g"}}

    monkeypatch.setattr(front._upstream, "nodes", nodes)
    monkeypatch.setattr(front._upstream, "groups_by_topic", groups)
    await front.start(Bench())
    impatient, *others = [asyncio.ensure_future(front.answer(ListGroups())) for _ in range(5)]
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    now_ns = time.monotonic_ns()
    told.set()
    await asyncio.gather(*others)
    assert asked == 1
    assert front._started.listing.fresh("t", now_ns)
    await front.answer(ListGroups())
    assert asked == 2
    await front.stop()
