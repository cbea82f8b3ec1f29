"""The proxies that stand in front of Kafka and of Pulsar alike."""

import json
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.names import HAPROXY, SLUICEGATE
from benchmarks.harness.processes import Child, UnavailableError, free_port

_READY_S = 60


def start_haproxy(stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child:
    """Start HAProxy in tcp mode; it ends with `stack`.

    :param directory: its own; made if it is missing.
    :param port: where clients connect.
    :param upstream: port of the broker's listener that advertises `port`.
    :raises UnavailableError: if it is not installed or does not start.
    """
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        raise UnavailableError("haproxy is not installed (Debian package haproxy)")
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


def start_gate(
    stack: ExitStack, directory: Path, broker: Mapping[str, object], policies: Mapping[str, object]
) -> Child:
    """Start Sluicegate; it ends with `stack`.

    :param directory: its own; made if it is missing.
    :param broker: its one entry under `brokers:`.
    :param policies: what stands under `policies:`, by level.
    :raises UnavailableError: if it is not installed or does not start.
    """
    program = Path(sys.executable).with_name("sluicegate")
    if not program.exists():
        raise UnavailableError(f"{program} is missing: install this project into the Python that runs this")
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "gateway.yaml"
    content = {
        "brokers": [broker],
        "policies": policies,
        "admin": {"port": free_port()},
        "state_dir": str(directory / "state"),
    }
    settings.write_text(json.dumps(content, indent=2))  # JSON is YAML
    child = stack.enter_context(Child(SLUICEGATE, [program, "run", "-c", settings], directory / "gate.log"))
    child.wait_for("sluicegate ready:", _READY_S)
    return child
