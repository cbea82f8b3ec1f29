"""The gateway's own login while the broker refuses it: retried ever less often, logged with the reason."""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.errors import KafkaError, SaslAuthenticationFailed
from tests.gateway.lab import upstream

from sluicegate_kafka.cluster.upstream import BackingOffError, Upstream
from sluicegate_kafka.config import KafkaConfig

SECOND = 1_000_000_000
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_REFUSAL = b"invalid credentials"


class Refusing:
    """A broker that refuses every login, and counts requests by API."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                api, _, number = struct.unpack_from(">hhi", frame)
                self.asked[api] += 1
                body = struct.pack(">i", number) + self._answer(api)
                writer.write(struct.pack(">i", len(body)) + body)
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, api: int) -> bytes:
        if api == _API_VERSIONS:
            known = [(_API_VERSIONS, 0, 0), (_HANDSHAKE, 0, 1), (_AUTHENTICATE, 0, 0), (3, 0, 1)]
            return struct.pack(">hi", 0, len(known)) + b"".join(struct.pack(">hhh", *each) for each in known)
        if api == _HANDSHAKE:
            return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
        return struct.pack(">hh", 58, len(_REFUSAL)) + _REFUSAL + struct.pack(">i", 0)


class Clock:
    def __init__(self) -> None:
        self.now_ns = SECOND

    def __call__(self) -> int:
        return self.now_ns


@asynccontextmanager
async def refused() -> AsyncIterator[tuple[Refusing, Upstream, Clock]]:
    broker, clock = Refusing(), Clock()
    async with upstream(broker.serve) as port:
        entry: dict[str, Any] = {
            "name": "main",
            "system": "kafka",
            "bootstrap": [f"127.0.0.1:{port}"],
            "listen": {"port": 1},
            "identity": {"username": "gate", "password": "old"},
        }
        asking = Upstream(KafkaConfig.model_validate(entry), clock)
        yield broker, asking, clock
        await asking.close()


async def test_a_refused_login_is_logged_with_its_reason_and_not_retried_for_each_client() -> None:
    async with refused() as (broker, asking, _):
        with pytest.raises(SaslAuthenticationFailed, match="invalid credentials"):
            await asking.groups_by_topic()
        tried = broker.asked[_AUTHENTICATE]
        for _ in range(100):
            with pytest.raises(BackingOffError):
                await asking.groups_by_topic()
            with pytest.raises(BackingOffError):
                await asking.nodes()
        assert broker.asked[_AUTHENTICATE] == tried <= 2


async def test_attempts_become_rare_but_never_stop() -> None:
    async with refused() as (broker, asking, clock):
        tried_at = []
        for step in range(4 * 120):
            clock.now_ns = SECOND + step * SECOND // 4
            before = broker.asked[_HANDSHAKE]
            with pytest.raises((KafkaError, BackingOffError)):
                await asking.groups_by_topic()
            if broker.asked[_HANDSHAKE] > before:
                tried_at.append(step / 4)
        assert 6 <= len(tried_at) <= 13
        assert tried_at[-1] >= 120 - 31
        assert tried_at[1] <= 1.25


async def test_a_broker_that_returns_is_asked_at_once() -> None:
    async with refused() as (broker, asking, _):
        for _ in range(5):
            with pytest.raises((KafkaError, BackingOffError)):
                await asking.nodes()
            asking.reset_backoff()
        assert broker.asked[_HANDSHAKE] >= 5


async def test_an_answer_of_the_broker_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with refused() as (_, asking, clock):
        with pytest.raises(KafkaError):
            await asking.nodes()
        clock.now_ns += 2 * SECOND

        class Answering:
            async def describe_cluster(self) -> dict[str, Any]:
                return {"brokers": [{"node_id": 1, "host": "b", "port": 9092}]}

            async def close(self) -> None:
                return None

        async def connected() -> Answering:
            return Answering()

        monkeypatch.setattr(asking, "_connected", connected)
        assert await asking.nodes() == {1: ("b", 9092)}
        assert await asking.nodes() == {1: ("b", 9092)}
