"""Two brokers of one cluster, with the bookie and the ZooKeeper that they need.

Not a standalone with a broker beside it: a standalone has its clients come through itself, as a proxy does.
"""

from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.harness.processes import Child, free_port, run_tool
from tests.pulsar.real.support.admin import Admin, AdminError
from tests.pulsar.real.support.broker import PulsarBroker, archived_pulsar
from tests.real.java import frugal_jvm
from tests.waiting import LONG_S, until

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.pulsar import CLUSTER, LOGGING, SMALL_JVM, PulsarNode

# Only tests move topics.
_SHARED = {
    "loadBalancerEnabled": "true",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


class _Bookie(PulsarNode):
    """A standalone without its broker."""

    def program(self, settings: Path) -> list[str | Path]:
        return [
            *super().program(settings),
            "--no-broker",
            "--metadata-url",
            self.settings["metadataStoreUrl"],
        ]

    def wait(self) -> None:
        self.child.wait_for("Started component bookie-server", LONG_S)


class _Broker(PulsarBroker):
    """A broker alone."""

    def program(self, settings: Path) -> list[str | Path]:
        return ["org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", settings]


class PulsarCluster:
    """Two brokers.

    :param directory: for all their files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._zookeeper_port = free_port()
        self._stack = ExitStack()
        self._metadata = f"zk:127.0.0.1:{self._zookeeper_port}"
        own = _SHARED | {
            "metadataStoreUrl": self._metadata,
            "configurationMetadataStoreUrl": self._metadata,
        }
        self._bookie = _Bookie(directory / "bookie", own, jvm=[*SMALL_JVM, *archived_pulsar()])
        self.brokers: tuple[PulsarBroker, PulsarBroker] = (
            _Broker(directory / "first", tls=None, admin_headers=None, **own),
            _Broker(directory / "second", tls=None, admin_headers=None, **own),
        )

    def start(self) -> None:
        """Start all and return once both brokers are healthy."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._stack.enter_context(self._start_zookeeper())
        first = self.brokers[0]
        setup = "org.apache.pulsar.PulsarClusterMetadataSetup"
        urls = ["--web-service-url", first.admin_url, "--broker-service-url", first.service_url]
        stores = ["--metadata-store", self._metadata, "--configuration-metadata-store", self._metadata]
        run_tool([*self._java(), setup, "--cluster", CLUSTER, *urls, *stores], LONG_S)
        # The hard way: a clean end would wait for others that are going away.
        for node in (self._bookie, *self.brokers):
            self._stack.callback(_kill, node)
        self._bookie.start()
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait()

    def stop(self) -> None:
        """End what runs."""
        self._stack.close()

    def _start_zookeeper(self) -> Child:
        settings = self._directory / "zoo.cfg"
        settings.write_text(
            f"dataDir={self._directory / 'zookeeper'}\nclientPort={self._zookeeper_port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=2000\n"
        )
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        child = Child("zookeeper", [*self._java(), main, settings], self._directory / "zookeeper.log")
        child.wait_for_port(self._zookeeper_port, LONG_S)
        return child

    def _java(self) -> list[str | Path]:
        heap = [*frugal_jvm(128), *archived_pulsar()]
        return [
            jars.java(),
            *heap,
            f"-Dlog4j2.configurationFile={LOGGING}",
            "-cp",
            jars.classpath(jars.PULSAR),
        ]

    @property
    def admin(self) -> Admin:
        """The admin API of the first broker, which sends on to the other."""
        return self.brokers[0].admin

    def owner(self, topic: str) -> PulsarBroker:
        """The broker that serves a topic; waits while a look-up fails, as it may while the topic moves."""
        found: list[PulsarBroker] = []

        def told() -> bool:
            with suppress(AdminError):
                found.append(self._owner_now(topic))
            return bool(found)

        until(told, f"the owner of {topic!r}")
        return found[0]

    def _owner_now(self, topic: str) -> PulsarBroker:
        url = self.admin.lookup(topic)["brokerUrl"]
        return next(broker for broker in self.brokers if broker.service_url == url)

    def move(self, topic: str) -> None:
        """Have the other broker serve a topic and all others of its bundle; its clients are sent there."""
        before = self.owner(topic)
        other = next(broker for broker in self.brokers if broker is not before)

        def moved() -> bool:
            # Clients look it up meanwhile: that may fail for a moment, or give it back to the old broker.
            with suppress(AdminError):
                if self._owner_now(topic) is other:
                    return True
                self.admin.unload(topic, f"127.0.0.1:{other.web_port}")
            return False

        until(moved, f"{topic!r} moved")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _kill(node: PulsarNode) -> None:
    if node.running:
        node.kill()
