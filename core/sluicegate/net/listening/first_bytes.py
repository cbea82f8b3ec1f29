"""Peeks at the first bytes of clients. They stay in the socket for the worker that serves the client."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass

MOST_BYTES = 4_096
"""Bytes that are looked at."""
_MOST_CLIENTS = 1_024
"""Clients that have not sent enough; beyond it the one that has waited longest is closed."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1
"""Between two looks at what is incomplete. The loop would report it as readable all the time."""


@dataclass(slots=True)
class _Waiting:
    size: int
    then: Callable[[bytes], None]
    late: asyncio.TimerHandle
    again: asyncio.TimerHandle | None = None
    pause_s: float = _FIRST_PAUSE_S


class FirstBytes:
    """Clients whose first bytes are awaited.

    :param loop: the running event loop.
    :param closing: called for a client that is closed as it did not send enough in time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, closing: Callable[[], None]) -> None:
        self._loop = loop
        self._closing = closing
        self._waiting: dict[socket.socket, _Waiting] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._waiting)

    def of(self, client: socket.socket, size: int, timeout_s: float, then: Callable[[bytes], None]) -> None:
        """Wait for a client's first bytes.

        :param client: non-blocking; owned until `then` is called, and closed if it never is.
        :param size: bytes to wait for, at most MOST_BYTES.
        :param timeout_s: longest time to wait, in seconds.
        :param then: gets as many bytes.
        """
        late = self._loop.call_later(timeout_s, self._late, client)
        self._waiting[client] = _Waiting(size, then, late)
        if len(self._waiting) > _MOST_CLIENTS:
            self._late(next(iter(self._waiting)))
        self._look(client)

    def close(self) -> None:
        """Close all clients that wait."""
        for client in tuple(self._waiting):
            self._let_go(client)
            client.close()

    def _look(self, client: socket.socket) -> None:
        waiting = self._waiting.get(client)
        if waiting is None:
            return
        try:
            first = client.recv(waiting.size, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._loop.add_reader(client, self._look, client)
            return
        except OSError:
            first = b""
        if len(first) >= waiting.size:
            self._let_go(client)
            waiting.then(first)
        elif first:
            self._loop.remove_reader(client)
            waiting.again = self._loop.call_later(waiting.pause_s, self._look, client)
            waiting.pause_s = min(2 * waiting.pause_s, _LONGEST_PAUSE_S)
        else:  # it has gone
            self._let_go(client)
            client.close()

    def _late(self, client: socket.socket) -> None:
        self._let_go(client)
        client.close()
        self._closing()

    def _let_go(self, client: socket.socket) -> None:
        waiting = self._waiting.pop(client)
        waiting.late.cancel()
        if waiting.again is not None:
            waiting.again.cancel()
        self._loop.remove_reader(client)
