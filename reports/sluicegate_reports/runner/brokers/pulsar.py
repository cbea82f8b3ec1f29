"""A real Pulsar on 127.0.0.1, in a directory of its own."""

import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.ports import free_port
from sluicegate_reports.runner.brokers.processes import Child
from sluicegate_reports.runner.brokers.restartable import Restartable

_START_S = 600
LOGGING = Path(__file__).with_name("pulsar-log4j2.properties")
CLUSTER = "standalone"
_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
# What bin/pulsar opens too: BookKeeper and Netty look into these.
OPENED = [
    *("java.base/java.nio", "java.base/jdk.internal.misc", "java.base/java.util.zip", "java.base/sun.net"),
    *("java.base/jdk.internal.platform", "java.management/sun.management"),
    "jdk.management/com.sun.management.internal",
]
# Java's own logging makes one of these at its first line, long before a client is served. Otherwise a node
# whose clients come back while it starts may hang: one thread initializes Schema, another one AbstractSchema,
# and each class waits for the other.
_SCHEMAS_FIRST = "-Djava.util.logging.config.class=org.apache.pulsar.client.impl.schema.BytesSchema"
SMALL_JVM = (
    "-Xms128m",
    "-Xmx768m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)
"""For nodes that live for seconds and share two cores: ready in a third of the time."""
STEADY_JVM = ("-Xms256m", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-Dsluicegate.log.level=warn")
"""For nodes whose speed is measured."""
# The last things that a standalone makes, each after it says that it is healthy.
_NAMESPACES = "/admin/v2/namespaces/pulsar"
_COORDINATOR = "/admin/v2/persistent/pulsar/system/transaction_coordinator_assign/partitions"


@dataclass(slots=True)
class PulsarNode(Restartable):
    """Broker and bookie in one process, which may be stopped or killed and started again on its data."""

    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further lines of broker.conf; they win over those that stand here."""
    listeners: Mapping[str, int] = field(default_factory=dict)
    """Further listener names that clients may ask for, and the port in the look-up's answer, a proxy's."""
    jvm: Sequence[str] = STEADY_JVM
    admin_headers: Mapping[str, str] = field(default_factory=dict)
    """What the admin API asks for, such as `Authorization`."""
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    _starts: int = 0

    stop_s: ClassVar[float] = 30

    @property
    def address(self) -> str:
        """`host:port` of the binary protocol."""
        return f"127.0.0.1:{self.port}"

    @property
    def service_url(self) -> str:
        """What clients are given."""
        return f"pulsar://{self.address}"

    @property
    def admin_url(self) -> str:
        """Start of the addresses of the admin API, without a slash at the end."""
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def log(self) -> Path:
        """What the node has printed since its last start."""
        return self.directory / f"start-{self._starts}.log"

    def begin(self) -> Child:
        """Start the process.

        :raises UnavailableError: if there is no Java or no Pulsar.
        """
        classpath, settings = jars.classpath(jars.PULSAR), self.directory / "broker.conf"
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = self._own_settings() | dict(self.settings)
        settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._starts += 1
        command: list[str | Path] = [
            *(jars.java(), *self.jvm, f"-Dlog4j2.configurationFile={LOGGING}", _SCHEMAS_FIRST),
            f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
            f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
            *("-cp", classpath, *self.program(settings)),
        ]
        return Child("pulsar", command, self.log)

    def program(self, settings: Path) -> list[str | Path]:
        """The main class and its arguments."""
        data = self.directory / "data"
        command: list[str | Path] = ["org.apache.pulsar.PulsarStandaloneStarter", "--config", settings]
        command += ["--no-stream-storage", "--no-functions-worker", "--num-bookies", "1"]
        return [*command, "--metadata-dir", data / "metadata", "--bookkeeper-dir", data / "bookkeeper"]

    def wait(self) -> None:
        """Return once the node is healthy and has made its namespaces.

        :raises UnavailableError: if it ends or is not ready in time; the text holds its last lines.
        """
        self.child.wait_until(self._ready, "was not healthy", _START_S)

    def _ready(self) -> bool:
        if self._admin_page("/admin/v2/brokers/health") != "ok":
            return False
        if self.settings.get("transactionCoordinatorEnabled") == "true":
            return '"partitions":1' in self._admin_page(_COORDINATOR)
        return '"pulsar/system"' in self._admin_page(_NAMESPACES)

    def _admin_page(self, path: str) -> str:
        """The body of a page with status 200, else nothing."""
        request = urllib.request.Request(self.admin_url + path, headers=dict(self.admin_headers))  # noqa: S310 - http
        try:
            with urllib.request.urlopen(request, timeout=10) as page:  # noqa: S310 - http
                text: str = page.read().decode()
                return text
        except OSError:
            return ""

    def _own_settings(self) -> dict[str, str]:
        lines = {
            "clusterName": CLUSTER,
            "bindAddress": "127.0.0.1",
            "brokerServicePort": str(self.port),
            "webServicePort": str(self.web_port),
            # Without these two the bookie binds every interface.
            "listeningInterface": "lo",
            "allowLoopback": "true",
            "managedLedgerDefaultEnsembleSize": "1",
            "managedLedgerDefaultWriteQuorum": "1",
            "managedLedgerDefaultAckQuorum": "1",
            # As bookkeeper.conf has it, for the largest message; bookies hang up on what is larger.
            "nettyMaxFrameSizeBytes": "5253120",
            "systemTopicEnabled": "true",
            "topicLevelPoliciesEnabled": "true",
            "loadBalancerEnabled": "false",
            "functionsWorkerEnabled": "false",
            "delayedDeliveryTickTimeMillis": "100",
            "isDelayedDeliveryDeliverAtTimeStrict": "true",
        }
        if not self.listeners:
            return lines | {"advertisedAddress": "127.0.0.1"}
        shown = {"direct": self.port, **self.listeners}
        return lines | {
            "advertisedListeners": ",".join(
                f"{name}:pulsar://127.0.0.1:{port}" for name, port in shown.items()
            ),
            "internalListenerName": "direct",
        }
