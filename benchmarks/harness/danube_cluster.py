"""A cluster of reference brokers on etcd, and its failover controllers: a process each."""

import sys
from pathlib import Path
from typing import Self

from benchmarks.harness.etcd import Etcd
from benchmarks.harness.processes import Child, free_port
from sluicegate.host.children import python_command
from sluicegate_reports.runner.brokers.restartable import Restartable

_START_S = 300


class Part(Restartable):
    """One process; each start has a log of its own.

    :param name: of its logs.
    :param directory: where they are.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self._directory = directory
        self._starts = 0

    @property
    def logs(self) -> list[Path]:
        """What each start has printed."""
        return [self._log(number) for number in range(1, self._starts + 1)]

    def _log(self, number: int) -> Path:
        return self._directory / f"{self.name}-{number}.log"

    def _command(self) -> tuple[list[str], str]:
        """What is run, and what it prints once it is ready."""
        raise NotImplementedError

    def begin(self) -> Child:
        """Start it."""
        self._starts += 1
        return Child(self.name, self._command()[0], self._log(self._starts))

    def wait(self) -> None:
        """Return once it is ready.

        :raises UnavailableError: if it ends before that.
        """
        self.child.wait_for(self._command()[1], _START_S)


class Broker(Part):
    """A reference broker. It keeps its port."""

    def __init__(self, number: int, store: str, ttl_s: int, directory: Path) -> None:
        super().__init__(f"broker-{number}", directory)
        self.number = number
        self.port = free_port()
        self._options = ["--store", store, "--ttl", str(ttl_s)]

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """What lookups answer."""
        return f"http://{self.address}"

    def _command(self) -> tuple[list[str], str]:
        of_this = ["--broker-id", str(self.number), "--port", str(self.port), *self._options]
        return python_command("sluicegate_danube.reference", *of_this), "no Danube"


class Controller(Part):
    """`sluicegate danube failover run`."""

    def __init__(self, number: int, store: str, ttl_s: int, directory: Path) -> None:
        super().__init__(f"controller-{number}", directory)
        self._options = ["--store", store, "--ttl", str(ttl_s)]

    @property
    def id(self) -> int:
        """The id that it registers with and prints."""
        said = self.logs[-1].read_text(errors="replace").partition("ready: controller ")[2]
        return int(said.split(",")[0].split()[0])

    def _command(self) -> tuple[list[str], str]:
        program = str(Path(sys.executable).with_name("sluicegate"))
        return [program, "danube", "failover", "run", *self._options], "sluicegate danube failover ready"


class DanubeCluster:
    """An etcd, and brokers and controllers that use it, of which none runs at first.

    :param directory: for their logs; made if it is not there.
    :param ttl_s: of the leases of brokers and controllers.
    """

    def __init__(
        self, directory: Path, etcd: Etcd, *, brokers: int = 3, controllers: int = 2, ttl_s: int = 2
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.etcd = etcd
        self.ttl_s = ttl_s
        numbers = range(1, brokers + 1)
        url = f"{etcd.url}?timeout=10s"  # starts do not repeat a call
        self.brokers = [Broker(number, url, ttl_s, directory) for number in numbers]
        self.controllers = [Controller(n, url, ttl_s, directory) for n in range(1, controllers + 1)]

    @property
    def parts(self) -> list[Part]:
        """All processes but etcd."""
        return [*self.brokers, *self.controllers]

    def run_only(self, *parts: Part) -> None:
        """Have these run, and no others; returns once they are ready."""
        for part in self.parts:
            if part not in parts:
                part.stop()
        new = [part for part in parts if not part.running]
        for part in new:
            part.launch()
        for part in new:
            part.wait()

    def stop(self) -> None:
        """End all, brokers first."""
        for part in self.parts:
            part.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
