"""Runs a client's work in the caller's thread."""

from collections.abc import Callable
from threading import Event
from time import monotonic_ns
from typing import TypeVar

from sluicegate.client.policed_client import Engine
from sluicegate.sessions.work import Running, Turn, Until, Work

Result = TypeVar("Result")


class ClosedError(Exception):
    """The client was closed while it waited."""


def finish(engine: Engine, work: Callable[[Turn], Work[Result]], closed: Event) -> Result:
    """Block until work is done.

    :param closed: set when the client is closed.
    :raises ClosedError: if the client is closed meanwhile; the work gives back what it has taken.
    """
    running: Running[Result] = Running(monotonic_ns())
    try:
        with engine.lock:
            made = running.begin(work(running))
        while isinstance(made, Running):
            _awaited(running, closed)
            with engine.lock:
                made = running.go_on(monotonic_ns(), None)
        return made
    finally:
        with engine.lock:
            running.close(monotonic_ns())


def _awaited(running: Running[Result], closed: Event) -> None:
    waits = running.waits
    # A question for the broker's subscriptions has no answer in a client: the work goes on at once.
    at_ns = waits.at_ns if isinstance(waits, Until) else 0
    if closed.wait(max(0, at_ns - monotonic_ns()) / 1e9):
        raise ClosedError
