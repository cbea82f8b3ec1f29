"""The proxies that stand in front of Kafka and of Pulsar alike."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.harness.names import HAPROXY, SLUICEGATE
from benchmarks.harness.processes import Child, UnavailableError, free_port, free_ports
from sluicegate.admin.running_note import NAME

_READY_S = 60
_START_S = 120


def start_haproxy(stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child:
    """Start HAProxy in tcp mode; it ends with `stack`.

    :param directory: its own; made if it is missing.
    :param port: where clients connect.
    :param upstream: port of the broker's listener that advertises `port`.
    :raises UnavailableError: if it is not installed or does not start.
    """
    program = installed("haproxy", "Debian package haproxy")
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "haproxy.cfg"
    settings.write_text(
        "global\n  maxconn 8000\n"
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n"
        f"listen broker\n  bind 127.0.0.1:{port}\n  server node 127.0.0.1:{upstream}\n"
    )
    command: list[str | Path] = [program, "-db", "-f", settings]
    child = stack.enter_context(Child(HAPROXY, command, directory / "haproxy.log"))
    child.wait_for_port(port, _READY_S)
    return child


def installed(name: str, package: str) -> str:
    """Path of a program.

    :param package: what brings it.
    :raises UnavailableError: if it is not installed.
    """
    executable = shutil.which(name) or shutil.which(name, path=f"/usr/sbin:{Path(sys.executable).parent}")
    if executable is None:
        raise UnavailableError(f"{name} is not installed ({package})")
    return executable


class Gate:
    """`sluicegate run` with one broker and an admin port; it ends with `stack`.

    :param directory: its own, for file, state and logs; made if it is missing.
    :param policies: what stands under `policies:`, by level.
    :param entry: more of its one entry under `brokers:`.
    :param settings: more of its file, by section.
    :raises UnavailableError: if it is not installed.
    """

    def __init__(
        self,
        stack: ExitStack,
        directory: Path,
        system: str,
        bootstrap: Sequence[str],
        policies: Mapping[str, object],
        entry: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self._admin_port = free_ports(8), free_port()
        self._stack, self._directory, self._starts = stack, directory, 0
        broker = {
            "name": "benchmark",
            "system": system,
            "bootstrap": bootstrap,
            "listen": {"port": self.port},
        }
        self._settings = {
            "brokers": [{**broker, **(entry or {})}],
            "admin": {"port": self._admin_port},
            "state_dir": str(directory / "state"),
            **settings,
        }
        self.write(policies)
        self.child = self._launch()

    @property
    def address(self) -> str:
        """`host:port` for clients; the ports of nodes follow it."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What its last process has printed."""
        return self.child.log.read_text(errors="replace")

    @property
    def file(self) -> Path:
        """Its configuration file."""
        return self._directory / "gateway.yaml"

    @property
    def note(self) -> Path:
        """Where it notes its admin endpoint."""
        return self._directory / "state" / NAME

    def write(self, policies: Mapping[str, object] | None) -> None:
        """Replace the file; None writes one that is broken."""
        draft = self.file.with_suffix(".draft")
        content = json.dumps({**self._settings, "policies": policies})  # JSON is YAML
        draft.write_text("brokers: [" if policies is None else content)
        draft.replace(self.file)

    def _launch(self) -> Child:
        program = Path(sys.executable).with_name("sluicegate")
        if not program.exists():
            raise UnavailableError(f"{program} is missing: install this project into this Python")
        self._starts += 1
        log = self._directory / f"gate-{self._starts}.log"
        return self._stack.enter_context(Child(SLUICEGATE, [program, "run", "-c", self.file], log))

    def wait(self) -> Self:
        """Return once it serves.

        :raises UnavailableError: if it does not start.
        """
        self.child.wait_for("sluicegate ready:", _START_S)
        return self

    def metrics(self) -> dict[str, float]:
        """Samples of its metrics by name; of several with one name the last."""
        with urlopen(f"http://127.0.0.1:{self._admin_port}/metrics", timeout=_READY_S) as page:
            text = page.read().decode()
        families = text_string_to_metric_families(text)
        return {sample.name: sample.value for family in families for sample in family.samples}
