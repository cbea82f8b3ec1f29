"""The front's own requests to the broker."""

import asyncio
import time

import pytest
from tests.kafka.session.wire import Bench

from sluicegate.broker import Listener
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.shared.listing import ListGroups

ENTRY = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}


@pytest.mark.parametrize(
    ("identity", "opened"),
    [
        ({"username": "gate", "password": "secret"}, ["bootstrap", "node-1"]),
        ({"bootstrap": ["b:9091"]}, ["bootstrap"]),
    ],
)
async def test_brokers_at_the_gateways_own_listener_are_no_nodes_for_clients(
    identity: dict[str, object], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    front, bench = KafkaFront(KafkaConfig.model_validate(ENTRY | {"identity": identity})), Bench()
    listeners: list[str] = []

    async def listen(listener: Listener) -> None:
        listeners.append(listener.name)

    async def nodes() -> dict[int, tuple[str, int]]:
        return {1: ("b", 9091)}

    monkeypatch.setattr(bench, "listen", listen)
    monkeypatch.setattr(front._upstream, "nodes", nodes)
    await front.start(bench)
    front.reached()
    for task in bench._spawned:  # one may spawn another
        await task
    assert listeners == opened
    await front.stop()


async def test_concurrent_questions_share_one_request_to_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    front = KafkaFront(KafkaConfig.model_validate(ENTRY))
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
