"""Periodic work of a plugin."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


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
