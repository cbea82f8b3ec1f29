"""What the gRPC interceptors cost: their own code alone, and a whole call beside an empty interceptor.

Server and client are one process, one call at a time; the two servers are called in turn, so that what else
the machine does meets both.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc import aio

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine, ServiceConfig
from sluicegate.model import Level, Method, MethodMap, PolicyLayer, Role, Setting, Source
from sluicegate.testing import NullSink
from sluicegate_grpc.aio import PolicyServerInterceptor
from sluicegate_grpc.sync import PolicyServerInterceptor as SyncPolicyServerInterceptor

_METHOD = "/bench.Broker/Send"
_MAP = MethodMap("service", {_METHOD: Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,))})
_REQUEST = b"\x0a\x06orders\x12\x02p1\x1a\x80\x08" + b"x" * 1024
_POLICIES = {
    "max_message_size": 4 * 2**20,
    "max_publish_rate": 2_000_000_000,
    "max_publish_rate_bytes": 2_000_000_000,
    "max_producers_per_topic": 1_000_000,
}
_BATCH = 100
_REPEATS = 7


class _Empty(aio.ServerInterceptor):
    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        return await continuation(handler_call_details)


class _SyncEmpty(grpc.ServerInterceptor):
    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        return continuation(handler_call_details)


def _interceptor(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    calls = 500 if quick else 5_000
    config = GatewayConfig(brokers=(ServiceConfig(name="bench", system="service"),))
    settings = {name: Setting(value, Source.FILE, "benchmark") for name, value in _POLICIES.items()}
    with PolicyEngine(config, [PolicyLayer(Level.BROKER, "", settings)], sink=NullSink()) as engine:
        return asyncio.run(_aio(engine, calls)) | _sync(engine, calls)


# -- grpc.aio -----------------------------------------------------------------------------------------


async def _aio(engine: PolicyEngine, calls: int) -> dict[str, float]:
    alone: list[float] = []
    policy = PolicyServerInterceptor(engine, _MAP)

    async def answer(request: bytes, context: Any) -> bytes:
        return b""

    async def measure(request: bytes, context: Any) -> bytes:
        alone.append(_alone_us(policy, context, 4 * calls))
        return b""

    empty_port, empty_server = await _aio_server([_Empty()], answer)
    policy_port, policy_server = await _aio_server([policy], answer)
    measured_port, measured_server = await _aio_server([policy], measure)
    async with (
        aio.insecure_channel(f"127.0.0.1:{empty_port}") as to_empty,
        aio.insecure_channel(f"127.0.0.1:{policy_port}") as to_policy,
        aio.insecure_channel(f"127.0.0.1:{measured_port}") as to_measured,
    ):
        await to_measured.unary_unary(_METHOD)(_REQUEST)  # type: ignore[arg-type]
        empty, policed = await _aio_in_turn(to_empty, to_policy, calls)
    for server in (empty_server, policy_server, measured_server):
        await server.stop(None)
    return {"alone_us": alone[0], **_medians("aio", empty, policed)}


async def _aio_server(interceptors: list[Any], behavior: Any) -> tuple[int, aio.Server]:
    server = aio.server(interceptors=interceptors)
    server.add_generic_rpc_handlers((_service(behavior),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return port, server


async def _aio_in_turn(
    to_empty: aio.Channel, to_policy: aio.Channel, calls: int
) -> tuple[list[float], list[float]]:
    async def batch(call: Callable[[bytes], Awaitable[bytes]]) -> float:
        start = time.perf_counter_ns()
        for _ in range(_BATCH):
            await call(_REQUEST)
        return (time.perf_counter_ns() - start) / _BATCH / 1000

    times: tuple[list[float], list[float]] = [], []
    both: Any = [channel.unary_unary(_METHOD) for channel in (to_empty, to_policy)]
    for number in range(2 + calls // _BATCH):
        for call, own in zip(both, times, strict=True):
            taken = await batch(call)
            if number >= 2:  # the first batches warm up
                own.append(taken)
    return times


def _alone_us(policy: PolicyServerInterceptor, context: Any, calls: int) -> float:
    """Microseconds of what the interceptor adds to a publish: whose it is, its values, its decision.

    The best of several repeats, less the loop around it; with the context of a real call.
    """
    enforcer = policy.enforcer
    policed = enforcer.policed(_METHOD)
    assert policed is not None
    caller = policy._caller  # noqa: SLF001 - what a call calls
    best, empty = float("inf"), float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter_ns()
        for _call in itertools.repeat(None, calls):
            enforcer.policed(_METHOD)
            assert enforcer.police(policed, policed.read(_REQUEST), _REQUEST, caller(context)) is None
        best = min(best, time.perf_counter_ns() - start)
        start = time.perf_counter_ns()
        for _call in itertools.repeat(None, calls):
            pass
        empty = min(empty, time.perf_counter_ns() - start)
    return (best - empty) / calls / 1000


# -- with threads -------------------------------------------------------------------------------------


def _sync(engine: PolicyEngine, calls: int) -> dict[str, float]:
    with ThreadPoolExecutor(2) as first, ThreadPoolExecutor(2) as second:
        empty_port, empty_server = _sync_server(first, _SyncEmpty())
        policy_port, policy_server = _sync_server(second, SyncPolicyServerInterceptor(engine, _MAP))
        with (
            grpc.insecure_channel(f"127.0.0.1:{empty_port}") as to_empty,
            grpc.insecure_channel(f"127.0.0.1:{policy_port}") as to_policy,
        ):
            empty, policed = _sync_in_turn(to_empty, to_policy, calls)
        for server in (empty_server, policy_server):
            server.stop(None).wait()
    return _medians("sync", empty, policed)


def _sync_server(pool: ThreadPoolExecutor, interceptor: Any) -> tuple[int, grpc.Server]:
    server = grpc.server(pool, interceptors=[interceptor])
    server.add_generic_rpc_handlers((_service(lambda request, context: b""),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return port, server


def _sync_in_turn(
    to_empty: grpc.Channel, to_policy: grpc.Channel, calls: int
) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = [], []
    both: Any = [channel.unary_unary(_METHOD) for channel in (to_empty, to_policy)]
    for number in range(2 + calls // _BATCH):
        for call, own in zip(both, times, strict=True):
            start = time.perf_counter_ns()
            for _ in range(_BATCH):
                call(_REQUEST)
            if number >= 2:
                own.append((time.perf_counter_ns() - start) / _BATCH / 1000)
    return times


def _service(behavior: Any) -> Any:
    handler: Any = grpc.unary_unary_rpc_method_handler(behavior)
    return grpc.method_handlers_generic_handler("bench.Broker", {"Send": handler})


def _medians(kind: str, empty: list[float], policed: list[float]) -> dict[str, float]:
    """Medians of a call without policies, of one with them, and of the difference within each pair."""
    longer = [after - before for before, after in zip(empty, policed, strict=True)]
    return {
        f"{kind}_empty_us": statistics.median(empty),
        f"{kind}_policies_us": statistics.median(policed),
        f"{kind}_difference_us": statistics.median(longer),
    }


SCENARIOS = (
    Scenario(
        "grpc-interceptor",
        "cost of the interceptors: their code alone, and of a whole call beside an empty interceptor",
        (ENGINE,),
        _interceptor,
        cold_round=False,
    ),
)
