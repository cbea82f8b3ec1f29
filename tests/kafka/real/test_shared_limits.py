"""Two gateways that share one limit through a Redis, which is killed in the middle."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import time_ns

import pytest
from aiokafka import AIOKafkaProducer
from benchmarks.harness.redis import RedisServer, why_no_redis
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.gate import Gate
from tests.real.needs import need
from tests.waiting import LONG_S, until

RATE = 200
PATIENCE = {"lease": "1s", "timeout": "250ms"}
"""On a busy machine one gateway alone could miss its store, and spend its share beside the other's leases."""
_AT_ONCE = 8
_PHASE = 500
"""Messages before the store is killed, while it is away, and after it is back."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    need(why_no_redis())
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


async def _publish(gates: list[Gate], topic: str, redis: RedisServer) -> None:
    """Publish through both, as fast as they let it, until each phase has its messages."""
    sent = 0
    phases = [asyncio.Event() for _ in range(3)]

    async def flood(producer: AIOKafkaProducer) -> None:
        nonlocal sent
        while not phases[-1].is_set():
            await producer.send_and_wait(topic, json.dumps(time_ns()).encode())
            sent += 1
            if sent % _PHASE == 0:
                phases[min(sent // _PHASE, 3) - 1].set()

    producers = [
        AIOKafkaProducer(bootstrap_servers=gate.bootstrap, request_timeout_ms=1000 * LONG_S) for gate in gates
    ]
    async with asyncio.timeout(2 * LONG_S):
        for producer in producers:
            await producer.start()
        try:
            floods = [asyncio.ensure_future(flood(each)) for each in producers for _ in range(_AT_ONCE)]
            await phases[0].wait()
            await asyncio.to_thread(redis.kill)
            await phases[1].wait()
            await asyncio.to_thread(redis.start)
            await asyncio.gather(*floods)
        finally:
            for producer in producers:
                await producer.stop()


def test_two_gateways_admit_one_limit_in_every_window(
    kafka: KafkaBroker, new_topic: NewTopic, redis: RedisServer, tmp_path: Path
) -> None:
    topic = new_topic("shared", message_timestamp_type="LogAppendTime")
    policies = {"topics": [{"name": topic, "max_publish_rate": RATE}]}
    with ExitStack() as running:
        gates = [
            running.enter_context(
                Gate(
                    tmp_path / name,
                    kafka.bootstrap,
                    policies,
                    settings={"budgets": {"url": redis.url, "gateway": name, **PATIENCE}},
                )
            )
            for name in ("one", "two")
        ]
        members = "sluicegate_budget_store_members"
        until(lambda: [each.metric(members) for each in gates] == [2, 2], "both know of both")
        asyncio.run(_publish(gates, topic, redis))
        outputs = [gate.output() for gate in gates]

    stored = [
        (json.loads(each.value), each.timestamp_ms * 10**6) for each in read_topic(kafka.bootstrap, topic)
    ]
    # What was admitted in a window was sent before and stored after, however slow all of this is.
    for begin, _ in stored:
        inside = sorted(at for sent, at in stored if sent >= begin)
        for count, end in enumerate(inside, 1):
            assert count <= RATE * (end + 10**6 - begin) / 1e9 + RATE, (begin, end)
    for output in outputs:
        assert "the budget store is away" in output
        assert "the budget store answers again" in output
