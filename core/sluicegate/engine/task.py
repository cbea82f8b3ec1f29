"""Periodic work of a plugin."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass


class SharedTask(ABC):
    """What workers that share limits tell each other of a task, so that one of them does it for all.

    One worker leads the task: it hears what the others see, runs the task, and tells what it found. The
    others take that over instead of running it. If the leader ends, another leads. Where no limits are
    shared, or while their store is away, each worker runs the task for itself.

    All methods are called on the thread of tasks, in this order: `tell`, then `hear`, the task's run and
    `findings`, or else `take`.
    """

    async def tell(self) -> str:
        """What this worker sees of its own, such as its clients' rates; JSON of at most 256 KiB."""
        return ""

    def hear(self, reports: Mapping[str, str] | None) -> None:  # noqa: B027 - few tasks need it
        """Take what the other workers see into account in the next run.

        :param reports: by worker; None if it is unknown, as the store is away.
        """

    @abstractmethod
    def findings(self) -> str:
        """What the last run found; JSON of at most 256 KiB. What the run applied has taken effect by then."""

    @abstractmethod
    def take(self, findings: str, age_s: float) -> None:
        """Take over what the leader found, also before this worker leads for the first time.

        :param age_s: how long ago it was told, in seconds. Clocks of hosts may differ, so times within need
            it.
        :raises ValueError: if it cannot be read, as another version wrote it.
        """


@dataclass(frozen=True, slots=True)
class Task:
    """Work that a gateway repeats, off the path of messages.

    It runs on an event loop of its own in one thread with the other tasks of the broker, so it must not
    block. Its results take effect by `BrokerContext.apply`.
    """

    name: str
    """Name in logs and metrics, in snake_case, unique among the tasks of a broker."""
    interval_ms: Callable[[], int]
    """Milliseconds from the beginning of one run to that of the next; read again while it waits, so it may
    follow the policies. At least 10."""
    run: Callable[[], Awaitable[None]]
    """One run. If it raises, or takes longer than three intervals (at least 5 s), that is counted and logged,
    and it is run again at its next time."""
    shared: SharedTask | None = None
    """How one worker runs it for all that share limits; None if each runs it for itself."""
