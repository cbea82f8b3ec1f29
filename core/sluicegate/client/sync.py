"""Runs a client's work in the caller's thread."""

from collections.abc import Callable
from threading import Event
from time import monotonic_ns
from typing import TypeVar

from sluicegate.client.policed_client import Engine
from sluicegate.sessions.work import Ask, Running, Turn, Until, Work

Result = TypeVar("Result")
Answer = Callable[[object], object]


class ClosedError(Exception):
    """The client was closed while it waited."""


def finish(
    engine: Engine, work: Callable[[Turn], Work[Result]], closed: Event, answer: Answer | None = None
) -> Result:
    """Block until work is done.

    :param closed: set when the client is closed.
    :param answer: answers its questions.
    :raises ClosedError: if the client is closed meanwhile; the work gives back what it has taken.
    """
    running: Running[Result] = Running(monotonic_ns())
    try:
        with engine.lock:
            made = running.begin(work(running))
        while isinstance(made, Running):
            reply = _awaited(running, closed, answer)
            with engine.lock:
                made = running.go_on(monotonic_ns(), reply)
        return made
    finally:
        with engine.lock:
            running.close(monotonic_ns())


def _awaited(running: Running[Result], closed: Event, answer: Answer | None) -> object:
    waits = running.waits
    if isinstance(waits, Ask):
        return answer(waits.question) if answer is not None else None
    at_ns = waits.at_ns if isinstance(waits, Until) else 0
    if closed.wait(max(0, at_ns - monotonic_ns()) / 1e9):
        raise ClosedError
    return None
