"""HTTP connections that wait for their clients: for how long, and how many of them.

A server without these limits is full once enough clients have begun a head, the body of an answered request,
or to take an answer, and stalled.
"""

import asyncio
from collections import OrderedDict
from typing import Any
from typing import Protocol as TypingProtocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Longest time from the first byte of a request, or from the connection for the first one, to the end of its
head, and from an answer to the end of its request's body."""
TAKEN_S = 90.0
"""Longest time for a client to take what was written to it. Applications that write in parts have shorter
ones of their own."""
_JUST_S = 1.0
"""Seconds since it has connected in which the first request of a client may still be under way."""


class Waiter(TypingProtocol):
    """A connection that waits for its client."""

    @property
    def address(self) -> str:
        """The client's host; empty if it is not known."""

    def close(self) -> None:
        """End it."""


class Waiting:
    """The connections that wait for their clients: for a request, or for them to take an answer.

    :param most: connections; above it, the oldest one of the address that has most is closed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_address: dict[str, OrderedDict[Waiter, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: Waiter) -> None:
        """Count a connection, and close one of those before it if they are too many."""
        waiters = self._by_address.setdefault(connection.address, OrderedDict())
        if connection in waiters:
            return
        waiters[connection] = None
        self._count += 1
        if self._count > self._most:
            busiest = max(self._by_address, key=lambda address: len(self._by_address[address]))
            oldest = next(iter(self._by_address[busiest]))
            # At once: its `connection_lost` comes in a later turn, and the next client may come before that.
            self.remove(oldest)
            oldest.close()

    def remove(self, connection: Waiter) -> None:
        """Stop counting a connection: it is closed or has a request in progress."""
        waiters = self._by_address.get(connection.address)
        if waiters is not None and connection in waiters:
            del waiters[connection]
            self._count -= 1
            if not waiters:
                del self._by_address[connection.address]


class Protocol(H11Protocol):
    """uvicorn's protocol with bounds on heads, on the rest of answered requests, and on taking answers.

    :param waiting: the server's connections that wait for their clients.
    """

    def __init__(
        self,
        *arguments: Any,
        waiting: Waiting,
        head_s: float = HEAD_S,
        taken_s: float = TAKEN_S,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._waiting = waiting
        self._head_s = head_s
        self._taken_s = taken_s
        self._deadline: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._connected_s = 0.0
        """The event loop's time."""

    @property
    def address(self) -> str:
        """The client's host; empty if it is not known."""
        return self.client[0] if self.client else ""

    def close(self) -> None:
        """Close the connection at once: a client that does not take its answer would take no leave either."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """The head of the first request is due."""
        super().connection_made(transport)
        self._connected_s = self.loop.time()
        transport.set_write_buffer_limits(1, 0)  # to learn of what the client does not take
        self._waiting.add(self)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """The head of a request has begun, unless these bytes are all of it or belong to a body."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self._deadline is None:
            self._begin()

    def handle_events(self) -> None:
        """A head may be complete now, or the answer before the next one."""
        super().handle_events()
        if self._is_stopping and self.cycle is not None:
            self.cycle.keep_alive = False
        if self.transport.is_closing():
            return
        if not self._is_idle:
            self._end()
        self._settle()

    def shutdown(self) -> None:
        """The server stops: a client that has just connected is still answered, others at most once more."""
        self._is_stopping = True
        if self.loop.time() > self._connected_s + _JUST_S or self.cycle is not None:
            super().shutdown()

    def on_response_complete(self) -> None:
        """The rest of a request that was answered before its end is due."""
        super().on_response_complete()
        if self.conn.our_state is h11.DONE and not self.transport.is_closing():
            self._waiting.add(self)
            if self._deadline is None:
                self._begin()

    def pause_writing(self) -> None:
        """The client does not take all of an answer."""
        super().pause_writing()
        self._untaken = self.loop.call_later(self._taken_s, self.transport.abort)
        self._settle()

    def resume_writing(self) -> None:
        """The client has taken all."""
        self._taken()
        self._settle()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        self._end()
        self._taken()
        self._waiting.remove(self)
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        """Whether it has no request in progress: a head is due, or the rest of a request that is answered."""
        return self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE

    def _settle(self) -> None:
        """Count the connection as waiting, or no longer."""
        if self._is_idle or self._untaken is not None:
            self._waiting.add(self)
        else:
            self._waiting.remove(self)

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(self._head_s, self.transport.close)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
