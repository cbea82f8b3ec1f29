"""Real etcd members on loopback, from Debian's package `etcd-server`."""

import json
import os
import shutil
import ssl
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import Child, free_port
from sluicegate_reports.runner.brokers.restartable import Restartable

_START_S = 120
_HEARTBEAT_MS, _ELECTION_MS = 50, 500
"""Shorter than etcd's own, so that one starts sooner, and the shortest lease is of one second."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files for the client's port."""

    certificate: str
    key: str
    client_ca: str | None = None
    """Authority of clients, which then need a certificate."""


def why_no_etcd() -> str | None:
    """What is missing to start one, in words; None if nothing."""
    return None if shutil.which("etcd") else "etcd is not installed (Debian: etcd-server)"


class Etcd(Restartable):
    """One member; it can be stopped, killed and started again on the same ports with the same data.

    :param directory: for its data and its log.
    :param tls: for its client port.
    :param options: further options of the command line.
    """

    def __init__(
        self, directory: Path, *, name: str = "n0", tls: Tls | None = None, options: Sequence[str] = ()
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = directory / f"{name}.log"
        self.port, self._peer_port = free_port(), free_port()
        self._data = directory / name
        self._tls = tls
        self._options = tuple(options)
        self.cluster: Sequence[Etcd] = (self,)
        """All members of the first start."""

    @property
    def url(self) -> str:
        """What `store:` says for it, without a prefix."""
        return f"{'etcds' if self._tls else 'etcd'}://127.0.0.1:{self.port}"

    @property
    def peer(self) -> str:
        """Its name and its peers' address of it."""
        return f"{self.name}=http://127.0.0.1:{self._peer_port}"

    def begin(self) -> Child:
        """Start its process."""
        client = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        peer = self.peer.partition("=")[2]
        command = ["etcd", "--name", self.name, "--data-dir", str(self._data), "--logger", "zap"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", ",".join(member.peer for member in self.cluster)]
        slower = 4 if len(self.cluster) > 1 else 1  # members that stand still for a moment keep their leader
        command += ["--heartbeat-interval", str(slower * _HEARTBEAT_MS)]
        command += ["--election-timeout", str(slower * _ELECTION_MS)]
        if self._tls is not None:
            command += ["--cert-file", self._tls.certificate, "--key-file", self._tls.key]
            if self._tls.client_ca is not None:
                command += ["--client-cert-auth", "--trusted-ca-file", self._tls.client_ca]
        # The environment of the caller may name other options of etcd.
        own = {name: "" for name in os.environ if name.startswith("ETCD_")}
        return Child(f"etcd {self.name}", [*command, *self._options], self.log, own)

    def wait(self) -> None:
        """Return once it serves clients."""
        self.child.wait_for("serving client traffic", _START_S)
        self.child.wait_for_port(self.port, _START_S)

    def pause(self) -> None:
        """Stop it from running, with its connections open; returns once all of its threads stand."""
        super().pause()
        while any(not _stands(thread) for thread in Path(f"/proc/{self.pid}/task").iterdir()):
            time.sleep(0.001)

    def ask(self, path: str, **body: object) -> Any:
        """Call its JSON gateway, for what the metadata store does not do: `ask("auth/enable")`."""
        scheme = "https" if self._tls else "http"
        request = urllib.request.Request(
            f"{scheme}://127.0.0.1:{self.port}/v3/{path}", json.dumps(body).encode(), method="POST"
        )
        context = ssl._create_unverified_context() if self._tls else None  # noqa: SLF001 - loopback
        with urllib.request.urlopen(request, timeout=_START_S, context=context) as answer:
            return json.load(answer)


def _stands(thread: Path) -> bool:
    """Whether a thread is stopped; a signal reaches one that runs on another core a little later."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TtZX"
    except OSError:  # it has ended
        return True
