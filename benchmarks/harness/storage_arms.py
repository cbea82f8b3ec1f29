"""Kafka nodes whose log directory has a small volume, behind the gate or with Strimzi's plug-in."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.brokers import MeasuredKafka
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import Child, free_port
from benchmarks.harness.proxies import Gate
from benchmarks.harness.volumes import MIB, mount_volume
from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.doors.native_kafka import strimzi_properties

VOLUME = 512 * MIB
SOFT, HARD = 300 * MIB, 100 * MIB
"""Free bytes. The plug-in has no soft limit."""
QUOTA = 5_000_000
"""Bytes of record batches per second."""
INTERVAL_S = 2
"""Between two looks at the volume. The plug-in knows whole seconds only, and waits for answers for one second
less than the interval: with an interval of 1 it never gets one, and never pauses."""
MAX_HOLD_S = 2
_STORAGE = "client.quota.callback.static.storage"


@dataclass(frozen=True, slots=True)
class StorageArm:
    """One way to a node on a volume of its own."""

    bootstrap: str
    broker: MeasuredKafka
    volume: Path
    gate: Child | None = None


def start_arm(stack: ExitStack, directory: Path, name: str) -> StorageArm:
    """Start a node on an empty volume, with what limits it; all ends with `stack`.

    :param directory: its own; made here.
    :param name: SLUICEGATE or STRIMZI.
    :raises UnavailableError: if a program is missing, or the right to mount.
    """
    return (_sluicegate if name == SLUICEGATE else _strimzi)(stack, directory)


def _sluicegate(stack: ExitStack, directory: Path) -> StorageArm:
    volume = mount_volume(stack, directory / "volume", VOLUME)
    broker = stack.enter_context(_node(directory, volume, free_port()))
    entry = {
        "max_hold": f"{MAX_HOLD_S}s",
        "storage": {"source": "log_dirs", "interval": f"{INTERVAL_S}s"},
    }
    policies = {
        "publish_quota_bytes": QUOTA,
        "storage_soft_min_free_bytes": SOFT,
        "storage_hard_min_free_bytes": HARD,
    }
    gate = Gate(stack, directory / "gateway", "kafka", [broker.bootstrap], {"broker": policies}, entry).wait()
    return StorageArm(gate.address, broker, volume, gate.child)


def _strimzi(stack: ExitStack, directory: Path) -> StorageArm:
    plugin, port = jars.classpath(jars.STRIMZI), free_port()
    volume = mount_volume(stack, directory / "volume", VOLUME)
    lines = strimzi_properties(QUOTA, 0, port) | {
        f"{_STORAGE}.per.volume.limit.min.available.bytes": str(HARD),
        f"{_STORAGE}.check-interval": str(INTERVAL_S),
    }
    broker = stack.enter_context(_node(directory, volume, port, lines, plugin))
    return StorageArm(broker.bootstrap, broker, volume)


def _node(
    directory: Path, volume: Path, port: int, lines: dict[str, str] | None = None, extra_jars: str = ""
) -> MeasuredKafka:
    own = {"log.dirs": str(volume / "kafka"), "log.index.size.max.bytes": str(MIB), **(lines or {})}
    return MeasuredKafka(directory / "node", own, extra_jars=extra_jars, port=port)
