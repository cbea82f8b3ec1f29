"""`sluicegate run` in front of a gRPC broker known only by a method map."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.gateway.lab import module_path
from tests.grpc.driver.courier import FOLLOW, HEALTH, LARGE_METADATA, SEND, Post, courier, message
from tests.real.gate import GateProcess
from tests.waiting import LONG_S

TOPIC = b"parcels.eu"


@dataclass(slots=True)
class CourierGate(GateProcess):
    """A gateway whose file names the plugin with the map."""

    def entry(self) -> dict[str, Any]:
        """As `GateProcess.entry`."""
        return {
            "name": "post",
            "system": "courier",
            "bootstrap": [self.upstream],
            "listen": {"host": "127.0.0.1", "port": self.port},
        }


@dataclass(frozen=True, slots=True)
class World:
    """The broker, the gateway in front of it, and a stock client at the gateway."""

    post: Post
    gate: CourierGate
    channel: grpc.Channel

    def send(self, payload: bytes, producer: bytes = b"anna", topic: bytes = TOPIC) -> bytes:
        """Publish by a stock client's call."""
        call: Any = self.channel.unary_unary(SEND)
        sent: bytes = call(message(topic, producer, payload), timeout=LONG_S, wait_for_ready=True)
        return sent


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    policies = {
        "broker": {"max_message_size": 100},
        "namespaces": [{"name": "parcels", "max_producers_per_topic": 2}],
        "topics": [{"name": "parcels.full", "max_subscriptions_per_topic": 1}],
    }
    with pytest.MonkeyPatch.context() as patch, courier() as (post, address):
        patch.setenv("PYTHONPATH", module_path())
        settings = {"plugins": ["tests.grpc.driver.courier"]}
        directory: Path = tmp_path_factory.mktemp("courier")
        with (
            CourierGate(directory, address, policies, settings=settings) as gate,
            grpc.insecure_channel(gate.bootstrap) as channel,
        ):
            yield World(post, gate, channel)


def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value
    return error.code(), error.details()


def test_one_message_passes_and_one_that_is_too_large_is_refused(world: World) -> None:
    small, large = b"x" * 100, b"x" * 101
    before = len(world.post.received)

    assert world.send(small) == b""
    code, text = refused(lambda: world.send(large))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("Message size exceeds maximum allowed for topic parcels.eu. Current: 101 bytes")
    assert world.post.received[before:] == [message(TOPIC, b"anna", small)]
    [row] = world.gate.decided(policy="max_message_size")
    assert (row["system"], row["topic"], row["action"]) == ("courier", TOPIC.decode(), "reject")


def test_producers_count_by_the_namespace_that_the_topic_s_name_begins_with(world: World) -> None:
    for producer in (b"anna", b"bert", b"anna"):
        world.send(b"x", producer, b"parcels.us")
    code, text = refused(lambda: world.send(b"x", b"carl", b"parcels.us"))

    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert text.startswith("Producer limit reached")
    world.send(b"x", b"carl", b"letters.us")


def test_subscriptions_count_as_this_gateway_admitted_them(world: World) -> None:
    def follow(subscription: bytes) -> list[bytes]:
        call: Any = world.channel.unary_stream(FOLLOW)
        return list(call(message(b"parcels.full", subscription), timeout=LONG_S))

    assert follow(b"mine") == [message(b"one"), message(b"two")]
    code, text = refused(lambda: follow(b"another"))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert text.startswith("Subscription limit reached")
    assert follow(b"mine") == [message(b"one"), message(b"two")]


def test_a_method_missing_from_the_map_is_refused_and_reported(world: World) -> None:
    call: Any = world.channel.unary_unary(HEALTH)
    code, text = refused(lambda: call(b"", timeout=LONG_S))

    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert "unknown_methods: {courier.Post: pass}" in text
    labels = {"broker": "post", "event": "unknown_method_refused"}
    world.gate.eventually(
        lambda: world.gate.metric("sluicegate_broker_events_total", **labels) == 1, "the call is counted"
    )
    world.gate.eventually(lambda: f"method '{HEALTH}' is not known" in world.gate.output(), "it is told")


BINARY = [
    b"hello",
    "é".encode(),
    bytes(16),
    b"\xff\xfe\x00\x80",
    bytes.fromhex("0000" + "ab" * 16 + "01" + "cd" * 8 + "0201"),  # of OpenCensus, as grpc-trace-bin
]


@pytest.mark.parametrize("value", BINARY)
def test_binary_metadata_passes_both_ways(world: World, value: bytes) -> None:
    send: Any = world.channel.unary_unary(SEND)
    sent = message(TOPIC, b"anna", b"x")
    for _ in range(2):  # gRPC C-core sends raw bytes once it has seen a server that allows them
        _, call = send.with_call(sent, metadata=(("x-a-bin", value),), timeout=LONG_S)
        assert dict(call.trailing_metadata())["x-a-bin"] == value


def test_a_call_with_large_metadata_is_refused_alone(world: World) -> None:
    options = [*LARGE_METADATA, ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(world.gate.bootstrap, options) as channel:
        send: Any = channel.unary_unary(SEND)
        sent = message(TOPIC, b"anna", b"x")
        large = (("x-large", "h" * 100_000),)
        # The first may leave before its client has seen the gateway's SETTINGS.
        for _ in range(2):
            code, _ = refused(lambda: send(sent, metadata=large, timeout=LONG_S, wait_for_ready=True))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            send(sent, timeout=LONG_S)
