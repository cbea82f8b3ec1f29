"""HTTP/2 clients that are no gRPC library and insist that SETTINGS come first (RFC 9113 section 3.4).

They share no code with each other: curl and h2load with nghttp2 in C, Node. None of them waits for the
server before it asks.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from danube.proto import DanubeApi_pb2 as pb
from tests.danube.support.gates import Gate, gate, on_topic
from tests.danube.support.programs import installed, run

from sluicegate_danube.reference import ReferenceBroker

TRIES = 20
AT_ONCE = 4
"""Of more, each has sent its whole body before the gate looks at it."""
CALLS = 3_000
TOPIC = "/default/http2"
HEADERS = ("-H", "content-type: application/grpc", "-H", "te: trailers")
"""As curl and h2load take them."""
CLIENT = Path(__file__).parent.parent / "support" / "http2_client.js"


def framed(message: bytes) -> bytes:
    """A message with gRPC's prefix."""
    return b"\0" + len(message).to_bytes(4, "big") + message


TOO_LARGE = pb.StreamMessage(msg_id=pb.MsgID(producer_id=1, topic_name=TOPIC), payload=bytes(100_000))
CALLS_BY_NAME = {
    "passes": ("/danube.HealthCheck/HealthCheck", framed(pb.HealthCheckRequest().SerializeToString()), "0"),
    "is refused at once": ("/danube.Tomorrow/Publish", framed(b""), "12"),
    "is kept, then refused": (
        "/danube.ProducerService/SendMessage",
        framed(TOO_LARGE.SerializeToString()),
        "3",
    ),
}
"""Path, message and gRPC status of a call that goes on, one that the gate answers, and one that it keeps."""


@asynccontextmanager
async def through(reference: ReferenceBroker, directory: Path) -> AsyncIterator[Gate]:
    """A gateway that refuses large messages of the topic."""
    async with gate(directory, reference.addresses, on_topic(TOPIC, max_message_size=1_000)) as made:
        yield made


@pytest.fixture(params=CALLS_BY_NAME)
def call(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, str]:
    """Path, file with the message, and status."""
    path, message, status = CALLS_BY_NAME[request.param]
    file = tmp_path / "message.bin"
    file.write_bytes(message)
    return path, file, status


async def test_curl_succeeds_every_time(
    reference: ReferenceBroker, call: tuple[str, Path, str], tmp_path: Path
) -> None:
    path, file, status = call
    curl = installed("curl", "curl")
    async with through(reference, tmp_path) as to:
        command: list[str | Path] = [
            curl,
            "-sS",
            "--http2-prior-knowledge",
            "-o",
            "/dev/null",
            "-D",
            "-",
            *HEADERS,
        ]
        turns = asyncio.Semaphore(AT_ONCE)

        async def told_once() -> str:
            async with turns:
                return await run(*command, "--data-binary", f"@{file}", f"{to.url}{path}")

        told = await asyncio.gather(*(told_once() for _ in range(TRIES)))
    assert [re.findall(r"^grpc-status: (\d+)", each, re.MULTILINE) for each in told] == [[status]] * TRIES
    assert [each for each in told if "curl:" in each] == []


async def test_node_succeeds_every_time(
    reference: ReferenceBroker, call: tuple[str, Path, str], tmp_path: Path
) -> None:
    path, file, status = call
    node = installed("node", "nodejs")
    async with through(reference, tmp_path) as to:
        told = await run(node, CLIENT, f"{to.url}{path}", file, str(TRIES))
    assert told == f'{{"grpc-status {status}":{TRIES}}}\n'


async def test_h2load_succeeds_every_time(
    reference: ReferenceBroker, call: tuple[str, Path, str], tmp_path: Path
) -> None:
    path, file, _ = call
    h2load = installed("h2load", "nghttp2-client")
    async with through(reference, tmp_path) as to:
        command: list[str | Path] = [h2load, "-n", str(CALLS), "-c", "100", "-m", "10", "-d", file, *HEADERS]
        told = await run(*command, f"{to.url}{path}")
    assert f"{CALLS} succeeded, 0 failed, 0 errored, 0 timeout" in told, told
