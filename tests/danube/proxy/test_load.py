"""A grpc-go client through the gate, with many calls at once: ghz, built from source by `make ghz`.

It shares no code with Python's gRPC, and sends frames as other Go clients do.
"""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks.harness.grpc_clients import program
from benchmarks.harness.processes import UnavailableError
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from tests.danube.support.gates import Gate, channel, gate, on_topic
from tests.waiting import LONG_S

from sluicegate_danube.reference import ReferenceBroker

CALLS = 1_000
CONNECTIONS = 4


@pytest.fixture
def ghz() -> Path:
    """Skips where it was not built, unless that is asked for (as CI does)."""
    try:
        return program("ghz")
    except UnavailableError as reason:
        if os.environ.get("SLUICEGATE_REQUIRE_BROKER") == "1":
            pytest.fail(str(reason))
        pytest.skip(str(reason))


@dataclass(frozen=True)
class Load:
    """Calls of SendMessage by ghz."""

    ghz: Path
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
        content, described = self.directory / "message.bin", self.directory / "danube.protoset"
        content.write_bytes(message)
        file = FileDescriptorProto()
        pb.DESCRIPTOR.CopyToProto(file)
        described.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
        process = await asyncio.create_subprocess_exec(
            *(self.ghz, "--insecure", "--protoset", described, "--binary-file", content, "-O", "json"),
            *("--call", "danube.ProducerService.SendMessage", "-n", str(calls), "-c", str(at_once)),
            *("--timeout", "600s", "--connect-timeout", "600s"),
            *("--connections", str(CONNECTIONS), self.through.address),
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await process.communicate()
        assert process.returncode == 0
        statuses: dict[str, int] = json.loads(told)["statusCodeDistribution"]
        return statuses


async def test_a_go_client_gets_every_call_through(
    ghz: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses, on_topic(topic, max_publish_rate="1M/s")) as through:
        assert await Load(ghz, tmp_path, through, topic).send(bytes(1_000)) == {"OK": CALLS}
        assert through.state(topic).allowed_messages == CALLS


async def test_messages_that_span_frames_go_through(
    ghz: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    """grpc-go cuts them into frames of 16 KiB, and sends those of several calls in turn."""
    async with gate(tmp_path, reference.addresses, on_topic(topic, max_publish_rate="1M/s")) as through:
        assert await Load(ghz, tmp_path, through, topic).send(bytes(300_000), 60, 20) == {"OK": 60}
        assert through.state(topic).allowed_messages == 60


async def test_a_go_client_is_told_what_was_refused(
    ghz: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    policies = on_topic(topic, max_publish_rate_bytes="1B/s", burst_seconds=1000)  # enough for one
    async with gate(tmp_path, reference.addresses, policies) as through:
        statuses = await Load(ghz, tmp_path, through, topic).send(bytes(1_000))
        assert statuses.keys() == {"OK", "ResourceExhausted"}
        assert sum(statuses.values()) == CALLS
        assert through.state(topic).allowed_messages == statuses["OK"]


async def test_a_go_client_has_all_its_calls_refused(
    ghz: Path, reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    async with gate(tmp_path, reference.addresses, on_topic(topic, max_message_size=999)) as through:
        load = Load(ghz, tmp_path, through, topic)
        assert await load.send(bytes(1_000)) == {"InvalidArgument": CALLS}
        assert await load.send(bytes(999), 100) == {"OK": 100}
