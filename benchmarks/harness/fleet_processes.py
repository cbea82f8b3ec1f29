"""A fleet as processes: gateways with several workers each, the Redis that they share, and one upstream."""

import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.harness import procfs
from benchmarks.harness.noting_stand_in import start_noting
from benchmarks.harness.proxies import Gate
from benchmarks.harness.redis import RedisServer

_GATEWAYS = ("one", "two")


class FleetGateway(Gate):
    """One gateway, which is killed and started again. Its parameters are those of `Gate`."""

    def kill(self) -> None:
        """End the supervisor and all workers as `kill -9` does."""
        supervisor = self.child.pid
        for pid in sorted(
            procfs.tree(supervisor), key=lambda pid: pid != supervisor
        ):  # it would start workers
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.child.stop()

    def start_again(self) -> None:
        """Start it as it was, and return once it serves."""
        self.child = self._launch()
        self.wait()

    def workers(self) -> list[int]:
        """Process ids of its workers."""
        return procfs.workers(self.child.pid)


class Fleet:
    """Two gateways in front of one stand-in, which notes what comes; all end with `stack`.

    :param directory: for files, state and logs.
    :param system: `kafka` or `pulsar`.
    :param policies: what stands under `policies:`, by level.
    :param budgets: keys of the section besides its URL and the gateway's name.
    :param workers: of each gateway.
    """

    def __init__(
        self,
        stack: ExitStack,
        directory: Path,
        system: str,
        policies: Mapping[str, object],
        budgets: Mapping[str, object],
        workers: int = 2,
    ) -> None:
        self.notes = directory / "notes.txt"
        self.store = stack.enter_context(RedisServer(directory / "redis"))
        port, self.upstream = start_noting(stack, directory / "upstream", system, self.notes)
        self.gateways = [
            FleetGateway(
                stack,
                directory / name,
                system,
                [f"127.0.0.1:{port}"],
                policies,
                {"workers": workers},
                budgets={"url": self.store.url, "gateway": name, **budgets},
                decisions={"detail": "full"},
            )
            for name in _GATEWAYS
        ]
        for each in self.gateways:
            each.wait()
        self._members = workers * len(self.gateways)

    def is_whole(self) -> bool:
        """Whether all workers are members, as each gateway knows it."""
        return all(self._knows(each) for each in self.gateways)

    def _knows(self, gateway: Gate) -> bool:
        return gateway.metrics().get("sluicegate_budget_store_members") == self._members
