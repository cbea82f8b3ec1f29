"""Servers that are ended in any way, and started again on the same data."""

import signal
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from sluicegate_reports.runner.brokers.processes import Child


class Restartable(ABC):
    """One server as a process; a context manager that starts and stops it."""

    stop_s: ClassVar[float] = 10
    """How long an orderly end may take, in seconds."""
    _child: Child | None = None

    @abstractmethod
    def begin(self) -> Child:
        """Start the process.

        :raises UnavailableError: if something that it needs is not there.
        """

    @abstractmethod
    def wait(self) -> None:
        """Return once it serves its clients.

        :raises UnavailableError: if it ends or is not ready in time; the text holds its last lines.
        """

    @property
    def running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._child is not None

    @property
    def child(self) -> Child:
        """The running process."""
        assert self._child is not None, "it is not running"  # noqa: S101 - a mistake of the caller
        return self._child

    @property
    def pid(self) -> int:
        """Process id, while it runs."""
        return self.child.pid

    def launch(self) -> None:
        """Start its process; nothing if it runs. `wait` says when it is ready."""
        if self._child is None:
            self._child = self.begin()

    def start(self) -> Self:
        """`launch` and `wait`."""
        self.launch()
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it in an orderly way; nothing if it does not run."""
        if self._child is not None:
            self.resume()
            self._child.stop(self.stop_s)
            self._child = None

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.child.send_signal(signal.SIGKILL)
        self.stop()

    def pause(self) -> None:
        """Stop it from running, with its connections open, until `resume`."""
        self.child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it run again."""
        self.child.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
