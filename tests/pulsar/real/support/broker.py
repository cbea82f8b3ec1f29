"""Real Pulsars for tests: small ones, in directories that pytest removes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.processes import UnavailableError, free_port
from tests.pulsar.real.support.admin import Admin
from tests.real.archives import archived
from tests.real.certificates import Authority, Identity
from tests.waiting import LONG_S

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.jars import PULSAR
from sluicegate_reports.runner.brokers.pulsar import SMALL_JVM, PulsarNode

TRANSACTIONS = {
    "transactionCoordinatorEnabled": "true",
    # A topic that is loaded reads its namespace's snapshots by a reader that all topics share: it asks if
    # there is one more, then waits 30 s for it, and closes the topic if none comes. Hence one thread, as
    # another might take the snapshot in between, and no compaction, which might remove it.
    "numTransactionReplayThreadPoolSize": "1",
    "brokerServiceCompactionMonitorIntervalInSeconds": "0",
}
"""Lines of broker.conf for transactions, which nodes are without as in Pulsar's own broker.conf."""


@dataclass(frozen=True, slots=True)
class Tls:
    """What a node shows on its TLS ports; the plain ones are always there."""

    authority: Authority
    server: Identity
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)

    @property
    def service_url(self) -> str:
        """What clients are given, with `authority.certificate` as what they trust."""
        return f"pulsar+ssl://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        """As `PulsarNode.admin_url`."""
        return f"https://127.0.0.1:{self.web_port}"

    def settings(self) -> dict[str, str]:
        """Lines of broker.conf."""
        return {
            "brokerServicePortTls": str(self.port),
            "webServicePortTls": str(self.web_port),
            "tlsCertificateFilePath": os.fspath(self.server.certificate),
            "tlsKeyFilePath": os.fspath(self.server.key),
            "tlsTrustCertsFilePath": os.fspath(self.authority.certificate),
        }


class PulsarBroker(PulsarNode):
    """A node as tests use it.

    :param directory: for its settings, data and output.
    :param tls: for TLS ports besides the plain ones.
    :param admin_headers: what the admin API asks for, if the settings say that it does.
    :param jvm: options of the Java virtual machine besides those of `SMALL_JVM`; None for `archived_pulsar`.
    :param settings: further lines of broker.conf; they win.
    """

    def __init__(
        self,
        directory: Path,
        *,
        tls: Tls | None = None,
        admin_headers: Mapping[str, str] | None = None,
        jvm: Sequence[str] | None = None,
        **settings: str,
    ) -> None:
        own = (tls.settings() if tls else {}) | settings
        more = archived_pulsar() if jvm is None else jvm
        super().__init__(directory, own, jvm=[*SMALL_JVM, *more], admin_headers=admin_headers or {})
        self.admin = Admin(self.admin_url, self.admin_headers)

    def __exit__(self, *_: object) -> None:
        """End it the hard way: its data are thrown away."""
        if self.running:
            self.kill()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that the node has printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def archived_pulsar() -> Sequence[str]:
    """Java options for brokers and clients of Pulsar, with whose jars their classpath must begin."""
    return archived(PULSAR, _record)


def _record(directory: Path, option: str) -> None:
    with PulsarBroker(directory / "node", jvm=[option]) as node:
        node.child.stop(LONG_S)


def why_unavailable() -> str | None:
    """What is missing for a real broker, in words; None if all is there."""
    try:
        jars.java()
        jars.classpath(jars.PULSAR)
    except UnavailableError as error:
        return str(error)
    return None
