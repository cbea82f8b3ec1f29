"""Brokers and proxies that are started when they are first asked for."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from benchmarks.harness.processes import Child, UnavailableError

T = TypeVar("T")


class Measured(Protocol):
    """One way to a broker."""

    @property
    def proxy(self) -> Child | None:
        """The process that is measured; None where there is none."""


ArmT = TypeVar("ArmT", bound=Measured)


class Arms(ABC, Generic[ArmT]):
    """The arms of one kind of broker, started when a scenario first asks for them and ended with `stack`.

    :param directory: for what brokers and proxies write.
    """

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.stack = stack
        self.directory = directory
        self._started: dict[str, Any] = {}

    @abstractmethod
    def start(self, name: str) -> ArmT:
        """Start the arm of a name.

        :raises UnavailableError: if a program that it needs is missing or does not start.
        """

    def arm(self, name: str) -> ArmT:
        """The arm of a name.

        :raises UnavailableError: if it could not be started, now or before.
        """
        return self.once(name, lambda: self.start(name))

    def fresh_arm(self, name: str) -> ArmT:
        """The arm with its proxy started anew, for figures that must not depend on what it did before."""
        old = self._started.pop(name, None)
        proxy = getattr(old, "proxy", None)
        if proxy is not None:
            proxy.stop()
        return self.arm(name)

    def once(self, name: str, start: Callable[[], T]) -> T:
        """What runs under a name, started if nothing does; what could not be started is not tried again.

        :raises UnavailableError: if it could not be started, now or before.
        """
        if name not in self._started:
            try:
                self._started[name] = start()
            except UnavailableError as reason:
                self._started[name] = reason
        outcome = self._started[name]
        if isinstance(outcome, UnavailableError):
            raise outcome
        made: T = outcome
        return made
