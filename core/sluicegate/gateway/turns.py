"""Turns of the event loop for sessions that do long work in slices.

One slice is done in each turn of the loop, whichever client it belongs to. So however many clients send what
takes long, all others are served between two slices.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from sluicegate.broker import NextTurn

if TYPE_CHECKING:
    from sluicegate.gateway.relay import ClientSide


class Turns:
    """The queue of those who wait for a turn, first come first served.

    :param loop: the running event loop.
    """

    __slots__ = ("_loop", "_waiting", "taken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[ClientSide, NextTurn]] = deque()
        self.taken = 0
        """Slices done so far."""

    def ask(self, client: "ClientSide", question: NextTurn) -> None:
        """Answer a session's question in a turn of its own."""
        self._waiting.append((client, question))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        client, question = self._waiting[0]
        try:
            self.taken += 1
            client.answered(question, None)
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._loop.call_soon(self._next)
