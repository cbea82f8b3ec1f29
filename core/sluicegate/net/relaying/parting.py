"""Ends a session: releases what it holds, in turns of the event loop if that is much."""

from collections.abc import Callable, Iterator

from sluicegate.broker import Session
from sluicegate.net.relaying.turns import Turns


def part(session: Session, now_ns: int, turns: Turns, failed: Callable[[Exception], None]) -> None:
    """End a session whose connection is closed.

    :param session: the caller must not use it afterwards.
    :param now_ns: monotonic time.
    :param turns: the queue for slices after the first.
    :param failed: called with what the session raises.
    """
    try:
        slices = getattr(session, "parting", None)
        if slices is None:
            session.closed(now_ns)
            return
        _go_on(slices(now_ns), turns, failed)
    except Exception as error:  # noqa: BLE001 - must not keep others from being served
        failed(error)


def _go_on(slices: Iterator[None], turns: Turns, failed: Callable[[Exception], None]) -> None:
    def turn() -> None:
        try:
            _go_on(slices, turns, failed)
        except Exception as error:  # noqa: BLE001 - must not keep others from being served
            failed(error)

    for _ in slices:
        turns.queue(turn)
        return
