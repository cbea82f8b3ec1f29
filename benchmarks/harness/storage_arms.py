"""Kafka nodes whose log directory has a small volume, behind the gate or with Strimzi's plug-in."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness import jars
from benchmarks.harness.brokers import RunningBroker, start_broker
from benchmarks.harness.names import SLUICEGATE, STRIMZI
from benchmarks.harness.processes import Child, free_port, free_ports
from benchmarks.harness.proxies import start_gate
from benchmarks.harness.volumes import MIB, mount_volume

VOLUME = 512 * MIB
SOFT, HARD = 300 * MIB, 100 * MIB
"""Free bytes. The plug-in has no soft limit."""
QUOTA = 5_000_000
"""Bytes of record batches per second."""
INTERVAL_S = 2
"""Between two looks at the volume. The plug-in knows whole seconds only, and waits for answers for one second
less than the interval: with an interval of 1 it never gets one, and never pauses."""
MAX_HOLD_S = 2
_PLUGIN = "client.quota.callback.static"


@dataclass(frozen=True, slots=True)
class StorageArm:
    """One way to a node on a volume of its own."""

    bootstrap: str
    broker: RunningBroker
    volume: Path
    gate: Child | None = None


def start_arm(stack: ExitStack, directory: Path, name: str) -> StorageArm:
    """Start a node on an empty volume, with what limits it; all ends with `stack`.

    :param directory: its own; made here.
    :param name: of the arm.
    :raises UnavailableError: if a program is missing, or the right to mount.
    """
    return _STARTERS[name](stack, directory)


def _sluicegate(stack: ExitStack, directory: Path) -> StorageArm:
    volume = mount_volume(stack, directory / "volume", VOLUME)
    broker = _start_broker(stack, directory, volume, free_port())
    port = free_ports(4)
    entry = {
        "name": "benchmark",
        "system": "kafka",
        "bootstrap": [broker.bootstrap],
        "listen": {"port": port},
        "max_hold": f"{MAX_HOLD_S}s",
        "storage": {"source": "log_dirs", "interval": f"{INTERVAL_S}s"},
    }
    policies = {
        "publish_quota_bytes": QUOTA,
        "storage_soft_min_free_bytes": SOFT,
        "storage_hard_min_free_bytes": HARD,
    }
    gate = start_gate(stack, directory / "gateway", entry, {"broker": policies})
    return StorageArm(f"127.0.0.1:{port}", broker, volume, gate)


def _strimzi(stack: ExitStack, directory: Path) -> StorageArm:
    plugin, port = jars.strimzi_plugin(), free_port()
    volume = mount_volume(stack, directory / "volume", VOLUME)
    lines = {
        "client.quota.callback.class": "io.strimzi.kafka.quotas.StaticQuotaCallback",
        f"{_PLUGIN}.produce": str(QUOTA),
        f"{_PLUGIN}.storage.per.volume.limit.min.available.bytes": str(HARD),
        f"{_PLUGIN}.storage.check-interval": str(INTERVAL_S),
        f"{_PLUGIN}.kafka.admin.bootstrap.servers": f"127.0.0.1:{port}",
    }
    broker = _start_broker(stack, directory, volume, port, lines, plugin)
    return StorageArm(broker.bootstrap, broker, volume)


def _start_broker(
    stack: ExitStack,
    directory: Path,
    volume: Path,
    port: int,
    lines: dict[str, str] | None = None,
    extra_jars: str = "",
) -> RunningBroker:
    data = volume / "kafka"
    own = {"log.dirs": str(data), "log.index.size.max.bytes": str(MIB), **(lines or {})}
    broker = start_broker(stack, directory / "node", port=port, extra_jars=extra_jars, properties=own)
    return replace(broker, data=data)


_STARTERS: dict[str, Callable[[ExitStack, Path], StorageArm]] = {
    SLUICEGATE: _sluicegate,
    STRIMZI: _strimzi,
}
