"""Wrapped and bare clients while Danube's broker restarts: each message once and in order, for both alike."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.danube.client.test_client import new_client as new_client
from tests.danube.support.clients import consuming, danube_client, producing
from tests.waiting import LONG_S

from sluicegate_danube.reference import ReferenceBroker

POLICIES = {"max_publish_rate": 1_000_000, "max_dispatch_rate": 1_000_000, "max_message_size": "1MiB"}


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.longer])])
async def test_danube_client(reference: ReferenceBroker, new_client: Any, tmp_path: Path, count: int) -> None:
    values = [str(number).encode() for number in range(count)]
    topics = {"bare": "/default/bare", "wrapped": "/default/wrapped"}
    async with AsyncExitStack() as stack, asyncio.timeout(LONG_S):
        clients = {
            "bare": await stack.enter_async_context(danube_client(reference.urls[0])),
            "wrapped": await stack.enter_async_context(new_client(topics["wrapped"], **POLICIES)),
        }
        consumers, producers = {}, {}
        for name, client in clients.items():
            topic = topics[name]
            producers[name] = await stack.enter_async_context(producing(client, topic, reliable=True))
            consumers[name] = await stack.enter_async_context(consuming(client, topic))

        read: dict[str, list[bytes]] = {name: [] for name in clients}
        for half in (values[: count // 2], values[count // 2 :]):
            for name, producer in producers.items():
                for value in half:
                    await producer.send(value)
                read[name] += await consumers[name].take(len(half))
            if half[0] == values[0]:  # at rest: the client itself gives up acknowledging while none is there
                await reference.stop(forget=False)
                await reference.restart()
        for name, consumer in consumers.items():
            assert read[name] == values, name
            assert await consumer.nothing()
