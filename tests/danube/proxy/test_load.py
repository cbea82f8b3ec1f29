"""A grpc-go client through the gateway, with many calls at once: `peer call`, built by `make grpc-go`.

It shares no code with Python's gRPC, and sends frames as other Go clients do.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.danube.support.gates import Gate, channel, gate, on_topic
from tests.danube.support.programs import built
from tests.waiting import LONG_S

from sluicegate_danube.reference import ReferenceBroker

CALLS = 1_000
CONNECTIONS = 4


@pytest.fixture
def peer() -> Path:
    """Skips where it was not built, unless that is asked for (as CI does)."""
    return built("peer")


@dataclass(frozen=True)
class Load:
    """Calls of SendMessage by grpc-go."""

    peer: Path
    directory: Path
    through: Gate
    topic: str

    async def send(self, payload: bytes, calls: int = CALLS, at_once: int = 50) -> dict[str, int]:
        """How many calls ended with which status."""
        async with channel(self.through) as to_gate:
            created = await services.ProducerServiceStub(to_gate).CreateProducer(
                pb.ProducerRequest(producer_name="load", topic_name=self.topic), timeout=LONG_S
            )
            position = pb.MsgID(producer_id=created.producer_id, topic_name=self.topic)
            message = pb.StreamMessage(request_id=1, msg_id=position, payload=payload)
            return await self._run(message.SerializeToString(), calls, at_once)

    async def _run(self, message: bytes, calls: int, at_once: int) -> dict[str, int]:
        content = self.directory / "message.bin"
        content.write_bytes(message)
        process = await asyncio.create_subprocess_exec(
            *(self.peer, "call", "-target", self.through.address, "-message", content),
            *("-method", "/danube.ProducerService/SendMessage", "-calls", str(calls)),
            *("-in-flight", str(at_once), "-connections", str(CONNECTIONS)),
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await process.communicate()
        assert process.returncode == 0
        statuses: dict[str, int] = json.loads(told)
        return statuses


async def test_every_call_of_a_go_client_succeeds(
    peer: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses, on_topic(topic, max_publish_rate="1M/s")) as through:
        assert await Load(peer, tmp_path, through, topic).send(bytes(1_000)) == {"OK": CALLS}
        assert through.state(topic).allowed_messages == CALLS


async def test_messages_that_span_frames_pass(
    peer: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    """grpc-go cuts them into frames of 16 KiB, and sends those of several calls in turn."""
    async with gate(tmp_path, reference.addresses, on_topic(topic, max_publish_rate="1M/s")) as through:
        assert await Load(peer, tmp_path, through, topic).send(bytes(300_000), 60, 20) == {"OK": 60}
        assert through.state(topic).allowed_messages == 60


async def test_a_go_client_sees_refusals(
    peer: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    policies = on_topic(topic, max_publish_rate_bytes="1B/s", burst_seconds=1000)  # enough for one
    async with gate(tmp_path, reference.addresses, policies) as through:
        statuses = await Load(peer, tmp_path, through, topic).send(bytes(1_000))
        assert statuses.keys() == {"OK", "ResourceExhausted"}
        assert sum(statuses.values()) == CALLS
        assert through.state(topic).allowed_messages == statuses["OK"]


async def test_a_go_client_has_all_its_calls_refused(
    peer: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses, on_topic(topic, max_message_size=999)) as through:
        load = Load(peer, tmp_path, through, topic)
        assert await load.send(bytes(1_000)) == {"InvalidArgument": CALLS}
        assert await load.send(bytes(999), 100) == {"OK": 100}
