"""The gate as its users run it: the `sluicegate run` command, steered by its file."""

import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import psutil
import yaml
from benchmarks.harness.processes import Child
from prometheus_client.parser import text_string_to_metric_families
from tests.real.ports import free_ports
from tests.rows import rows_with
from tests.waiting import LONG_S, until

from sluicegate.decisions.reading import read_decisions

COMMAND: Sequence[str] = (sys.executable, "-c", "from sluicegate.cli import main; main()")
_READY = "sluicegate ready"
_SENT = re.compile(r"policies changed version='(\w+)'")
"""What the supervisor says of a version of policies."""
_TAKEN = re.compile(r"policies changed broker=.* to_version='(\w+)'")
"""The same of a worker."""

Policies: TypeAlias = Mapping[str, Any]
"""What stands under `policies:`. A mapping without a level in it is taken as the broker level."""
Row: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class GateProcess:
    """One `sluicegate run` in front of one cluster; each system's tests have a subclass with its entry.

    :param directory: an empty directory for its file, its state and its output.
    :param upstream: bootstrap addresses of the cluster, as `host:port,host:port`.
    :param policies: what holds at the start.
    :param broker: further keys of the broker's entry, such as `tls` or `max_hold`.
    :param settings: further keys of the file, such as `decisions`.
    """

    directory: Path
    upstream: str
    policies: Policies = field(default_factory=dict)
    broker: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1)[0])
    admin_port: int = field(default_factory=lambda: free_ports(1)[0])
    _child: Child | None = None
    _starts: int = 0

    # -- life -------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.directory / "gateway.yaml"

    @property
    def log(self) -> Path:
        """What the gate has printed since its last start."""
        return self.directory / f"gate-{self._starts}.log"

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        assert self._child is not None, "the gate is not running"
        return self._child.pid

    def start(self) -> None:
        """Start the gate and return once it says that it is ready.

        :raises UnavailableError: if it ends or is not ready in time; the text holds its last lines.
        """
        assert self._child is None, "the gate is running already"
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write()
        self._launch()

    def take_over(self, *, from_workers: bool = False) -> None:
        """Start another one that takes over from this one, and return once this one has ended.

        :param from_workers: kill this one's supervisor before, so that it takes over from workers alone.
        :raises UnavailableError: as `start`.
        """
        old, ending = self._child, self.processes()
        assert old is not None, "the gate is not running"
        if from_workers:
            ending[0].kill()
            self.eventually(lambda: "no supervisor any more" in self.output(), "the worker says so")
        self._launch(*() if from_workers else ("--take-over",))
        _, alive = psutil.wait_procs(ending, LONG_S)
        assert not alive, "the old gate does not end"
        old.stop()

    def _launch(self, *options: str) -> None:
        self._starts += 1
        self._child = Child("sluicegate", [*COMMAND, "run", "-c", self.file, *options], self.log)
        try:
            self._child.wait_for(_READY, LONG_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ask the gate to end as an operator does (SIGTERM), and wait for it; nothing if it does not run."""
        if self._child is not None:
            self._child.stop(LONG_S)
            self._child = None

    def kill9(self) -> None:
        """End the supervisor and all its workers at once, without a chance to clean up."""
        family = self.processes()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=LONG_S)
        self.stop()

    def restart(self) -> None:
        """Start again after `stop` or `kill9` (or stop first): same ports, same file, same state."""
        self.stop()
        self.start()

    def processes(self) -> list[psutil.Process]:
        """The supervisor, then its workers."""
        supervisor = psutil.Process(self.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- steering ---------------------------------------------------------------------------------

    def apply(self, policies: Policies) -> None:
        """Put other policies in force: replace the file as editors do, and wait for the gate to take it.

        :raises TimeoutError: if they are not in force in time.
        """
        with self.taking():
            self.change(policies)

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Wait, at the end of the block, until policies that are changed within it are in force.

        :raises TimeoutError: if they are not in time.
        """

        # Its own words: metrics may still tell of the change before this one, and so may the worker.
        def sent() -> list[str]:
            return _SENT.findall(self.output())

        before = len(sent())
        yield
        self.eventually(
            lambda: len(sent()) > before and _TAKEN.findall(self.output())[-1:] == sent()[-1:],
            "the policies are in force",
        )

    def change(self, policies: Policies) -> None:
        """Replace the file as editors do, and do not wait."""
        self.policies = policies
        self._write()

    def entry(self) -> dict[str, Any]:
        """The broker's entry in the file, with `system`; keys of `broker` win over it."""
        raise NotImplementedError

    def _write(self) -> None:
        content = {
            "brokers": [{**self.entry(), **self.broker}],
            "policies": _levels(self.policies),
            "state_dir": os.fspath(self.directory / "state"),
            "admin": {"host": "127.0.0.1", "port": self.admin_port},
            "log": {"repeats": 0},  # tests wait for lines, and count them
            **self.settings,
        }
        draft = self.file.with_suffix(".draft")
        draft.write_text(yaml.safe_dump(content, sort_keys=False))
        draft.replace(self.file)

    # -- what it says -----------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an administrative page, such as `/readyz`; (0, reason) without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=LONG_S) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples that carry these labels; 0 if there are none."""
        status, text = self.get("/metrics")
        assert status == 200, f"/metrics answered {status}: {text}"
        own = "\n".join(line for line in text.splitlines() if line.startswith(name))  # one of hundreds
        return sum(
            sample.value
            for family in text_string_to_metric_families(own)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def decisions(self, **columns: object) -> Sequence[Row]:
        """Rows of the decision log so far in which these columns have these values."""
        return rows_with(read_decisions(self.directory / "state" / "decisions"), columns)

    def decided(self, at_least: int = 1, **columns: object) -> list[Row]:
        """As `decisions`, once there are so many; the log is written a moment after the decision.

        :raises TimeoutError: if there are fewer in time.
        """
        found: list[Row] = []

        def enough() -> bool:
            found[:] = self.decisions(**columns)
            return len(found) >= at_least

        self.eventually(enough, f"{at_least} decisions with {columns}")
        return found

    def output(self) -> str:
        """What the gate has printed since its last start."""
        return self.log.read_text(errors="replace")

    def eventually(self, holds: Callable[[], bool], what: str, timeout_s: float = LONG_S) -> None:
        """Return once something holds.

        :raises TimeoutError: if it does not in time; the text ends with the gate's last lines.
        """
        until(holds, what, timeout_s, lambda: "\n".join(self.output().splitlines()[-20:]))


def _levels(policies: Policies) -> Mapping[str, Any]:
    if policies.keys() & {"broker", "namespaces", "topics"}:
        return policies
    return {"broker": dict(policies)} if policies else {}
