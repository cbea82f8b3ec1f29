"""The grpc-go peer of deploy/grpc: a broker that answers at once, and the clients that measure."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.jars import ROOT
from benchmarks.harness.processes import Child, UnavailableError, run_tool

_READY_S = 60


def program(name: str) -> Path:
    """A program that `make grpc-go` builds.

    :param name: `peer` or `h2spec`.
    :raises UnavailableError: if it was not built.
    """
    executable = ROOT / "deploy/grpc/target" / name
    if not executable.exists():
        raise UnavailableError(f"{executable} is missing: `make grpc-go` builds it with Go 1.19 or later")
    return executable


def start_upstream(stack: ExitStack, directory: Path, port: int) -> Child:
    """Start the broker; it ends with `stack`.

    :raises UnavailableError: if it was not built or does not start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [program("peer"), "serve", "-port", str(port)]
    child = stack.enter_context(Child("peer", command, directory / "peer.log"))
    child.wait_for_port(port, _READY_S)
    return child


@dataclass(frozen=True, slots=True)
class Published:
    """What a client saw that publishes as fast as it is answered."""

    calls_per_s: float
    p50_ms: float
    p99_ms: float
    sent: int
    """Calls in all, those of the warm-up included."""


def publish(
    address: str, *, in_flight: int, connections: int, seconds: float, deadline_s: int = 0
) -> Published:
    """Send 1 KiB messages, so many at once over so many connections.

    :param deadline_s: of each call; 0 for none, as Danube's clients have it.
    :raises RuntimeError: if a call fails.
    """
    options = {
        "target": address,
        "in-flight": in_flight,
        "connections": connections,
        "seconds": seconds,
        "deadline": f"{deadline_s}s",
    }
    printed = _run("publish", options, seconds)
    return Published(
        printed["messages"] / printed["seconds"], printed["p50_ms"], printed["p99_ms"], int(printed["sent"])
    )


@dataclass(frozen=True, slots=True)
class Received:
    """What a client saw that takes a stream of messages as fast as it comes."""

    messages_per_s: float
    taken: int
    """Messages in all, those of the warm-up included."""


def receive(address: str, *, seconds: float) -> Received:
    """Take messages of about 1.1 KB from one stream.

    :raises RuntimeError: if the stream ends.
    """
    printed = _run("receive", {"target": address, "seconds": seconds}, seconds)
    return Received(printed["messages"] / printed["seconds"], int(printed["taken"]))


def start_idle(stack: ExitStack, directory: Path, address: str, connections: int) -> Child:
    """Open connections, each of which makes one call and is then silent; they end with `stack`.

    :raises UnavailableError: if they cannot all be opened.
    """
    command: list[str | Path] = [program("peer"), "idle", "-target", address]
    command += ["-connections", str(connections)]
    child = stack.enter_context(Child("idle", command, directory / f"idle-{connections}.log"))
    child.wait_for('{"connections":', _READY_S)
    return child


def _run(command: str, options: dict[str, object], seconds: float) -> dict[str, float]:
    argv: list[str | Path] = [program("peer"), command]
    argv += [f"-{name}={value}" for name, value in options.items()]
    printed: dict[str, float] = json.loads(run_tool(argv, 120 + 3 * seconds))
    return printed
