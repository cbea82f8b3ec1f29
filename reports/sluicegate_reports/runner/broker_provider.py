"""Provides the brokers of a run: given by address, started from jars, or stand-ins."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.kafka import KafkaNode
from sluicegate_reports.runner.brokers.ports import free_port
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.brokers.pulsar import SMALL_JVM, PulsarNode
from sluicegate_reports.runner.doors.base import Broker
from sluicegate_reports.runner.doors.gate import hosted
from sluicegate_reports.runner.doors.native_kafka import strimzi_properties

_DIAL_S = 3.0
_KAFKA_LABEL = "librdkafka mock cluster, not a Kafka broker"
_STARTED = ("kafka", "kafka-strimzi", "pulsar", "danube")
_PULSAR_LABEL = "in-memory reference broker, not Pulsar"


@dataclass(frozen=True, slots=True)
class BrokerProvider:
    """Reaches or starts each broker.

    `given` has addresses by system, and the admin APIs as `pulsar-admin` and `danube-admin`. A broker that is
    not given is started from its jars, or replaced by a stand-in if `embedded` is set.
    """

    directory: Path
    """For data and logs of brokers."""
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    embedded: bool = False
    strimzi_rates: tuple[int, int] = (0, 0)
    """Limits of the Strimzi plug-in in bytes a second: published, and fetched."""
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Full names of topics that a stand-in must make itself, by broker."""

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[Broker]:
        """A broker within the block.

        :param name: kafka, kafka-strimzi, pulsar, danube, or a kind of another package that is given.
        :raises UnavailableError: if it is not available, with the reason and the remedy.
        """
        if name in self.given:
            yield await self._given(name)
            return
        if name not in _STARTED:
            raise UnavailableError(
                f"the runner cannot start one: give its address by --at {name}=HOST:PORT, "
                "or below systems: in the scenario"
            )
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        if name == "danube" or self.embedded:
            async with self._stand_in(name, directory) as broker:
                yield broker
            return
        if name == "kafka-strimzi" and not any(self.strimzi_rates):
            raise UnavailableError(
                "the scenario limits no bytes a second, and the plug-in knows nothing else"
            )
        with ExitStack() as stack:
            start = {"kafka": self._kafka, "kafka-strimzi": self._strimzi, "pulsar": self._pulsar}[name]
            try:
                broker = await asyncio.to_thread(start, stack, directory)
            except UnavailableError as error:
                raise UnavailableError(
                    f"{error}; or give its address, or --embedded for a stand-in"
                ) from None
            except (RuntimeError, OSError) as error:
                raise UnavailableError(f"{name} did not start: {error}") from None
            try:
                yield broker
            finally:
                # A broker takes seconds to stop, in which other processes are heard.
                await asyncio.to_thread(stack.close)

    async def _given(self, name: str) -> Broker:
        addresses = self.given[name]
        await asyncio.to_thread(_dial, addresses)
        admin = "".join(self.given.get(f"{name}-admin", ()))
        return Broker(name, addresses, "", f"at {', '.join(addresses)}", admin)

    @asynccontextmanager
    async def _stand_in(self, name: str, directory: Path) -> AsyncIterator[Broker]:
        if name == "kafka-strimzi":
            raise UnavailableError(f"{_KAFKA_LABEL}, takes no quota plug-in")
        label = {"kafka": _KAFKA_LABEL, "pulsar": _PULSAR_LABEL, "danube": REFERENCE_LABEL}[name]
        order = {"role": name, "topics": list(self.topics.get(name, ()))}
        async with hosted("broker", order, directory) as (_, ready):
            yield Broker(name, (ready["address"],), label, label, ready.get("admin", ""), embedded=True)

    def _kafka(self, stack: ExitStack, directory: Path) -> Broker:
        return _started(stack, KafkaNode(directory))

    def _strimzi(self, stack: ExitStack, directory: Path) -> Broker:
        port = free_port()
        properties = strimzi_properties(*self.strimzi_rates, port)
        return _started(
            stack, KafkaNode(directory, properties, extra_jars=jars.classpath(jars.STRIMZI), port=port)
        )

    def _pulsar(self, stack: ExitStack, directory: Path) -> Broker:
        node = PulsarNode(directory, jvm=SMALL_JVM)
        stack.enter_context(node)
        version = f"Pulsar {jars.version(jars.PULSAR, 'pulsar-broker')}, standalone, started by the runner"
        return Broker("pulsar", (node.address,), "", version, node.admin_url)


def _started(stack: ExitStack, node: KafkaNode) -> Broker:
    stack.enter_context(node)
    version = f"Kafka {jars.version(jars.KAFKA, 'kafka-clients')}, one node, started by the runner"
    if node.extra_jars:
        version += f", Strimzi quota plug-in {jars.version(jars.STRIMZI, 'kafka-quotas-plugin')}"
    return Broker("kafka", (node.bootstrap,), "", version)


def _dial(addresses: tuple[str, ...]) -> None:
    problems = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _DIAL_S).close()
        except OSError as error:
            problems.append(f"{address}: {error.strerror or error}")
        else:
            return
    raise UnavailableError(f"cannot be reached: {'; '.join(problems)}")
