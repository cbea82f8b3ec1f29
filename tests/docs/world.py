"""A place where the commands of a document can be run: its files, brokers, a shell and a gateway."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import Request, urlopen

import yaml
from tests.house.test_documents import ROOT
from tests.reports.model.example import example
from tests.waiting import LONG_S

from sluicegate.decisions import DecisionLog, RefusalJournal
from sluicegate.demo.ports import free_ports
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason
from sluicegate.store import SqliteStore
from sluicegate.testing import build_gate
from sluicegate_kafka.demo.mock_cluster import mock_cluster
from sluicegate_pulsar.reference import ReferenceBroker, Settings
from sluicegate_reports.model.results import to_json

_PORTS = 8
"""For one broker entry: its own port, and those of single brokers behind it."""
_INSTALL = "python -m pip install --quiet --no-index --no-deps --no-build-isolation --target site "
_REFUSAL = Reason(
    "max_producers_per_topic",
    Outcome.LIMIT_REACHED,
    "Producer limit reached for topic orders.eu. Current: 10, Limit: 10. Close idle producers.",
    10,
    10,
    "topic",
)


@dataclass(frozen=True, slots=True)
class Brokers:
    """Stand-ins for what the documents' files have gates in front of."""

    kafka: str
    pulsar: str
    pulsar_admin: str


@contextmanager
def brokers() -> Iterator[Brokers]:
    """Run the stand-ins in a thread within the block."""
    ready, done = Event(), Event()
    found: list[Brokers] = []

    async def serve() -> None:
        async with mock_cluster() as kafka, ReferenceBroker(Settings(tick_ms=100)) as pulsar:
            address = pulsar.service_url.removeprefix("pulsar://")
            found.append(Brokers(kafka[0], address, pulsar.admin_url))
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(LONG_S), "the stand-ins do not come up"
        topic = f"{found[0].pulsar_admin}/admin/v2/persistent/public/default/orders"
        urlopen(Request(topic, method="PUT"), timeout=LONG_S).close()
        yield found[0]
    finally:
        done.set()
        thread.join()


def documented_file(document: str) -> str:
    """The file `gateway.yaml` that a document speaks of; empty if its commands make it."""
    match document:
        case "docs/storage-quotas.md":
            return ""
        case "docs/configuration.md":
            return (ROOT / "examples" / "gateway.yaml").read_text()
        case "docs/pulsar.md" | "docs/plugin-tutorial.md":
            return _first_file(document)
        case _:
            return _first_file("README.md")


def _first_file(document: str) -> str:
    found = re.search(r"```yaml\n(brokers:\n.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert found is not None
    return found[1]


class World:
    """A directory with what the documents take for granted.

    :param directory: an empty one.
    :param file: text of `gateway.yaml`; none is written if it is empty.
    :param brokers: what stands behind the gateway.
    """

    def __init__(self, directory: Path, file: str, brokers: Brokers) -> None:
        self.directory = directory
        self._gateway: subprocess.Popen[str] | None = None
        self._code = 0
        kept = ("PATH", "PYTHONPATH", "PYTHONSAFEPATH", "LANG", "TMPDIR")
        self._environ = {name: os.environ[name] for name in kept if name in os.environ}
        self._environ["PATH"] = f"{Path(sys.executable).parent}:{self._environ['PATH']}"
        self._environ["HOME"] = str(directory)
        self._environ["PYTHONPATH"] = f"{directory}/site:{self._environ.get('PYTHONPATH', '')}"
        if file:
            for name in ("gateway.yaml", "candidate.yaml"):
                (directory / name).write_text(file)
            self._environ |= self._addresses(yaml.safe_load(file), brokers)
        self._furnish()

    def _addresses(self, file: dict[str, Any], brokers: Brokers) -> dict[str, str]:
        """Variables that put addresses of this machine in the place of the file's."""
        first = free_ports(_PORTS * (len(file["brokers"]) + 1))
        found: dict[str, object] = {"ADMIN__PORT": first, "ADMIN__HOST": "127.0.0.1"}
        for number, entry in enumerate(file["brokers"]):
            port, at = first + _PORTS * (number + 1), f"BROKERS__{number}__"
            address = {"kafka": brokers.kafka, "pulsar": brokers.pulsar}[entry["system"]]
            found |= {
                f"{at}BOOTSTRAP": [address],
                f"{at}LISTEN__PORT": port,
                f"{at}LISTEN__HOST": "127.0.0.1",
            }
            if "admin" in entry:
                found[f"{at}ADMIN__URL"] = brokers.pulsar_admin
            if "web" in entry:
                found |= {f"{at}WEB__LISTEN__PORT": first + 1, f"{at}WEB__LISTEN__HOST": "127.0.0.1"}
                curl = f"silent\nconnect-to = gate:{entry['web']['listen']['port']}:127.0.0.1:{first + 1}\n"
                (self.directory / ".curlrc").write_text(curl)
        return {f"SLUICEGATE__{name}": json.dumps(value).strip('"') for name, value in found.items()}

    def _furnish(self) -> None:
        """Files that documents name, and what a gateway has kept of a refusal."""
        for name in ("benchmarks", "examples"):
            (self.directory / name).symlink_to(ROOT / name)
        (self.directory / "server.properties").write_bytes(
            (ROOT / "examples/strimzi.properties").read_bytes()
        )
        for name in ("mixed.json", "before.json", "after.json"):
            (self.directory / name).write_bytes(to_json(example()))
        state = self.directory / "var" / "sluicegate"
        SqliteStore(state / "policies.db").close()
        gate = build_gate({}, now_ns=0)
        operation = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=9)
        log = DecisionLog(state / "decisions", "kafka", "main")
        log.decided(gate, operation, Decision(Action.REJECT, (_REFUSAL,)), 0)
        assert log.close()
        journal = RefusalJournal(state, "kafka", "main")
        told = Decision(Action.REJECT, (_REFUSAL,), policy_version=0x518CAA6FDD43, id="k3x9qa-1f")
        client = "orders@10.0.0.7:51234"
        journal.record(
            [(0, gate, OperationKind.ATTACH_PRODUCER, "User:anna", client, "", 0, 0, told)], 10**18, 0
        )
        journal.close()

    def run(self, command: str) -> tuple[int, str]:
        """Run a command in a shell; `$?` is the exit code of the one before.

        :return: its exit code, and both of its streams. A gateway runs on until the world ends: of it, what
            it printed until it was ready.
        """
        if command.startswith("sluicegate run"):
            return 0, self._start(command)
        command = re.sub(r"^pip install -e ", _INSTALL, command)  # not into the environment of the tests
        done = subprocess.run(
            ["bash", "-c", f"(exit {self._code})\n{command}"],
            cwd=self.directory,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        self._code = done.returncode
        return done.returncode, done.stdout

    def _start(self, command: str) -> str:
        assert self._gateway is None, "a document starts one gateway at most"
        errors = self.directory / "gateway.log"
        with errors.open("w") as stream:
            self._gateway = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.directory,
                env=self._environ,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )
        assert self._gateway.stdout is not None
        ready = self._gateway.stdout.readline()
        assert ready.startswith("sluicegate ready:"), errors.read_text()
        return ready

    def end(self) -> None:
        """End the gateway, if one runs, as a user would."""
        if self._gateway is None:
            return
        self._gateway.send_signal(signal.SIGTERM)
        code = self._gateway.wait(LONG_S)
        assert self._gateway.stdout is not None
        self._gateway.stdout.close()
        assert code == 0, (self.directory / "gateway.log").read_text()
