"""The process of a gateway or a reference broker: `python -m sluicegate_reports.runner.host ORDER.json`.

It is what `sluicegate run` does, in one process, with a decision log that belongs to the comparison run.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from sluicegate.config.models import BrokerConfig
from sluicegate.decisions import DecisionLog, Retention
from sluicegate.engine.gate import DecisionSink
from sluicegate.host.children import commands, say
from sluicegate_reports.runner.children import ask_clock

_NO_BOUND = Retention(max_bytes=0, max_age_s=0)
_ROWS_QUEUED = 1 << 20


def _log(order: Mapping[str, Any], broker: BrokerConfig, stack: AsyncExitStack) -> DecisionLog:
    """A decision log in the run's directory with a row for each decision."""
    log = DecisionLog(
        order["decisions"],
        order["system"],
        broker.name,
        "full",
        _ROWS_QUEUED,
        door=order["door"],
        run=order["run"],
        retention=_NO_BOUND,
    )

    async def close() -> None:
        await asyncio.to_thread(log.close)
        stats = log.stats()
        say({"log": {"decided": stats.decided, "emitted": stats.emitted, "dropped": stats.dropped}})

    stack.push_async_callback(close)
    return log


@asynccontextmanager
async def _gate(order: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """The proxy."""
    from sluicegate.processes.in_process import EmbeddedGateway

    async with AsyncExitStack() as stack:
        # The log asks less of a gateway than the engine's protocol promises; mypy cannot tell for attributes.
        gateway = EmbeddedGateway.from_file(
            order["file"],
            environ={},
            make_sink=lambda broker: cast("DecisionSink", _log(order, broker, stack)),
        )
        async with gateway:
            host, port = gateway.address()
            yield {"address": f"{host}:{port}"}


@asynccontextmanager
async def _danube(order: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Danube's reference broker, with the policies in it if the order names a file."""
    from sluicegate.embedded import PolicyEngine
    from sluicegate_danube.method_map import METHOD_MAP
    from sluicegate_danube.reference import LABEL, ReferenceBroker
    from sluicegate_grpc.aio import PolicyServerInterceptor

    async with AsyncExitStack() as stack:
        interceptors = []
        if "file" in order:
            engine = stack.enter_context(_engine(PolicyEngine, order, stack))
            interceptors.append(PolicyServerInterceptor(engine, METHOD_MAP))
        broker = await stack.enter_async_context(ReferenceBroker(interceptors=interceptors))
        for topic in order["topics"]:
            broker.create_topic(topic, reliable=True)
        yield {"address": broker.addresses[0], "admin": broker.urls[0], "version": LABEL}


def _engine(made: Any, order: Mapping[str, Any], stack: AsyncExitStack) -> Any:
    from sluicegate.config.load import load
    from sluicegate.runtime.plugins import load_plugins

    plugins = load_plugins(())
    loaded = load(order["file"], plugins.policy_models, plugins.broker_models, {})
    log = _log(order, loaded.config.brokers[0], stack)
    return made(loaded.config, loaded.policy_layers, sink=cast("DecisionSink", log))


@asynccontextmanager
async def _pulsar(order: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Pulsar's reference broker."""
    from sluicegate_pulsar.reference import LABEL, ReferenceBroker

    async with ReferenceBroker() as broker:
        address = broker.service_url.removeprefix("pulsar://")
        yield {"address": address, "admin": broker.admin_url, "version": LABEL}


@asynccontextmanager
async def _kafka(order: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Librdkafka's mock cluster."""
    from sluicegate_kafka.demo.mock_cluster import LABEL, mock_cluster

    async with mock_cluster() as addresses:
        yield {"address": addresses[0], "version": LABEL}


_ROLES = {"gate": _gate, "kafka": _kafka, "pulsar": _pulsar, "danube": _danube}


async def run(order: Mapping[str, Any]) -> None:
    """Serve until the runner ends or stops this process."""
    async with _ROLES[order["role"]](order) as ready:
        say({"ready": ready})
        async for command in commands():
            if not ask_clock(command):
                break


def main(arguments: list[str]) -> int:
    """Serve as a file says."""
    import uvloop

    uvloop.run(run(json.loads(Path(arguments[0]).read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
