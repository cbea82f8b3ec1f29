"""The example server runs as it stands, and its policies hold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from tests.waiting import LONG_S

from sluicegate.embedded import PolicyEngine
from sluicegate.testing import load_plugin

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "grpc"
TOPIC = "/shop/orders"


@pytest.fixture(scope="module")
def example() -> Any:
    return load_plugin(EXAMPLE / "server.py")


@pytest.fixture
async def stub(example: Any, tmp_path: Path) -> AsyncIterator[Any]:
    environ = {"SLUICEGATE__STATE_DIR": str(tmp_path)}
    with PolicyEngine.from_file(EXAMPLE / "policies.yaml", environ=environ) as engine:
        server, port = await example.start(engine, 0)
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield example.services.TinyStub(channel)
        await server.stop(None)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return caught.value.code(), str(caught.value.details())


async def test_sizes_rates_and_counts_are_enforced(example: Any, stub: Any) -> None:
    def publish(size: int = 1, producer: str = "p1", topic: str = TOPIC) -> Any:
        return stub.Send(example.messages.Publish(topic=topic, producer=producer, payload=b"x" * size))

    code, text = await refusal(publish(1025))
    assert (code, text[:29]) == (grpc.StatusCode.INVALID_ARGUMENT, "Message size exceeds maximum ")
    # Many at once: one after the other, a slow machine would keep within five a second.
    told = await asyncio.gather(*(publish() for _ in range(200)), return_exceptions=True)
    errors = [error for error in told if isinstance(error, aio.AioRpcError)]
    assert 5 <= len(told) - len(errors) < 200
    assert {error.code() for error in errors} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert {str(error.details())[:21] for error in errors} == {"Publish rate limit ex"}
    await publish(producer="p1", topic="/shop/other")
    await publish(producer="p2", topic="/shop/other")
    code, text = await refusal(publish(producer="p3", topic="/shop/other"))
    assert (code, text[:22]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "Producer limit reached")


async def test_consumers_are_counted_while_they_follow_and_paced(example: Any, stub: Any) -> None:
    def follow(consumer: str) -> Any:
        wanted = example.messages.Subscription(topic=TOPIC, name="s", consumer=consumer)
        return stub.Follow(wanted)

    await stub.Send(example.messages.Publish(topic=TOPIC, producer="p", payload=b"x"))
    first, second = follow("a"), follow("b")
    assert (await asyncio.gather(first.read(), second.read()))[0].payload == b"x"
    code, text = await refusal(follow("c").read())
    assert (code, text[:20]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "Consumer limit per t")
    first.cancel()
    third = None
    async with asyncio.timeout(LONG_S):
        while third is None:  # the server hears of the end in its own time
            call = follow("c")
            with suppress(aio.AioRpcError):
                third = await call.read()
