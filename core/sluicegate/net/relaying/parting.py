"""Ends a session: releases what it holds, in turns of the event loop if that is much."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from sluicegate.broker import BaseSession, Buffer

Queue: TypeAlias = Callable[[Callable[[], object]], None]
"""Schedules work for a turn of the event loop."""


def discard(data: Buffer) -> None:
    """Discard what can no longer be sent."""


def part(session: BaseSession, now_ns: int, queue: Queue, failed: Callable[[Exception], None]) -> None:
    """End a session whose connection is closed.

    :param session: the caller must not use it afterwards.
    :param now_ns: monotonic time.
    :param queue: schedules the slices after the first.
    :param failed: called with what the session raises.
    """
    try:
        _go_on(session.parting(now_ns), queue, failed)
    except Exception as error:  # noqa: BLE001 - must not keep others from being served
        failed(error)


def _go_on(slices: Iterator[None], queue: Queue, failed: Callable[[Exception], None]) -> None:
    def turn() -> None:
        try:
            _go_on(slices, queue, failed)
        except Exception as error:  # noqa: BLE001 - must not keep others from being served
            failed(error)

    for _ in slices:
        queue(turn)
        return
