"""Danube's publish rate under saturation, where the gate delays what is above it (`on_limit: delay`)."""

import asyncio
import itertools
import time

import grpc.aio
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_arms import LIMITED_PER_S, LIMITED_TOPIC
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.saturation import Saturation
from benchmarks.harness.scenario import Scenario

_PRODUCERS = 4
_IN_FLIGHT = 32
_PAYLOAD = bytes(1024)
_NUMBERS = itertools.count(1)


def _rate(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.grpc.fresh_arm(name)  # its buckets are full again
    seconds, window_s = (10.0, 5.0) if quick else (25.0, 20.0)
    seen = asyncio.run(_saturate(arm.address, seconds))
    return seen.figures(1, LIMITED_PER_S, seconds=seconds, window_s=window_s)


async def _saturate(address: str, seconds: float) -> Saturation:
    """Let several producers, each on a connection of its own, send as fast as they are let."""
    channels = [
        # Each its own: grpcio shares one connection between channels that are alike.
        grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        for _ in range(_PRODUCERS)
    ]
    stubs = [services.ProducerServiceStub(channel) for channel in channels]
    ids = [await _attach(stub) for stub in stubs]
    start = time.monotonic()
    try:
        times = await asyncio.gather(
            *(_produce(stub, called, start + seconds) for stub, called in zip(stubs, ids, strict=True))
        )
    finally:
        for channel in channels:
            await channel.close()
    return Saturation(start, times, failed=0)


async def _attach(stub: services.ProducerServiceStub) -> int:
    request = pb.ProducerRequest(producer_name=f"rate-{next(_NUMBERS)}", topic_name=LIMITED_TOPIC)
    answer = await stub.CreateProducer(request)
    return int(answer.producer_id)


async def _produce(stub: services.ProducerServiceStub, producer: int, until: float) -> list[float]:
    """Keep so many messages on their way; a call that fails ends the measurement."""
    position = pb.MsgID(producer_id=producer, topic_name=LIMITED_TOPIC)
    message = pb.StreamMessage(msg_id=position, payload=_PAYLOAD)
    times: list[float] = []

    async def one_after_the_other() -> None:
        while time.monotonic() < until:
            await stub.SendMessage(message)
            times.append(time.monotonic())

    await asyncio.gather(*(one_after_the_other() for _ in range(_IN_FLIGHT)))
    return times


SCENARIOS = (
    Scenario(
        "grpc-rate",
        "4 saturating producers against 1,000 messages/s: error, first second, gaps, fairness",
        (SLUICEGATE,),
        _rate,
        rounds=3,
        cold_round=False,
    ),
)
