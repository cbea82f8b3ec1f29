"""All processes of a failover: etcd, brokers, controllers and a gateway, shared by the tests."""

import json
import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from benchmarks.harness.danube_cluster import Broker, Controller, DanubeCluster
from benchmarks.harness.etcd import Etcd
from tests.conftest import ARTEFACTS
from tests.danube.failover.real.support.gate import Gate

TTL_S = 8
"""Of leases: long enough for a stall of some seconds. Noticing a death takes as long."""
_TAIL_LINES = 15


class World:
    """An etcd and a gateway that run, brokers and controllers that the tests start.

    :param directory: for all logs and data.
    """

    def __init__(self, directory: Path, etcd: Etcd) -> None:
        self.etcd = etcd
        self.cluster = DanubeCluster(directory / "cluster", etcd, ttl_s=TTL_S)
        self.gate = Gate(
            directory / "gate",
            ",".join(broker.address for broker in self.cluster.brokers),
            broker={"resume_producers": True},
            settings={"store": self.store_url},
        )

    @classmethod
    @contextmanager
    def running(cls, directory: Path) -> Iterator[Self]:
        """Start etcd and the gateway; all ends with the block."""
        with Etcd(directory / "etcd") as etcd:
            world = cls(directory, etcd)
            with world.cluster, world.gate:
                yield world

    @property
    def store_url(self) -> str:
        """Where the gateway has its policies: in the same etcd."""
        return f"{self.etcd.url}/sluicegate-policies?timeout=10s"

    @property
    def brokers(self) -> list[Broker]:
        """A, B and C."""
        return self.cluster.brokers

    @property
    def controllers(self) -> list[Controller]:
        """Both."""
        return self.cluster.controllers

    def reset(self) -> None:
        """Have no broker run, and no process paused, whatever a test has left."""
        for part in self.cluster.parts:
            if part.running:
                part.resume()
        for broker in self.brokers:
            broker.stop()

    # -- what is shown when a test fails ------------------------------------------------------------------

    @property
    def logs(self) -> list[Path]:
        """What all processes have printed."""
        of_parts = [log for part in self.cluster.parts for log in part.logs]
        return [log for log in (*of_parts, self.gate.log, self.etcd.log) if log.exists()]

    def sections(self) -> Iterator[tuple[str, str]]:
        """Title and text of each part of a failed test's report."""
        yield "keys in etcd", dump_lines(self.etcd)
        for log in self.logs:
            last = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
            yield log.stem, "\n".join(last)

    def keep(self, name: str) -> None:
        """Copy logs and keys to where the run's artefacts are kept, if anywhere.

        :param name: of the test.
        """
        if not os.environ.get(ARTEFACTS):
            return
        kept = Path(os.environ[ARTEFACTS]) / "failover" / name
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "keys.jsonl").write_text(dump_lines(self.etcd))
        for log in self.logs:
            shutil.copy(log, kept)


def dump_lines(etcd: Etcd) -> str:
    """All keys of an etcd, sorted, as lines of JSON; the reason, if it does not answer."""
    everything = {"key": b64encode(b"\0").decode(), "range_end": b64encode(b"\0").decode()}
    try:
        found = etcd.ask("kv/range", **everything).get("kvs", ())
    except OSError as error:
        return f"the keys cannot be listed: {error}\n"
    entries = (
        {
            "key": b64decode(entry["key"]).decode(errors="replace"),
            "value": b64decode(entry.get("value", "")).decode(errors="replace"),
            "created": int(entry["create_revision"]),
            "modified": int(entry["mod_revision"]),
            "lease": int(entry.get("lease", 0)),
        }
        for entry in found
    )
    return "".join(f"{json.dumps(entry)}\n" for entry in entries)
