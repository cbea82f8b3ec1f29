"""Connects to the broker for clients, and probes it."""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import TypeVar, cast

from sluicegate.net.background import BackgroundTasks
from sluicegate.net.reachability import Endpoint, Reachability
from sluicegate.net.tls import TlsContexts

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors that say nothing about the broker."""
_ANSWER_S = 5.0
_FOREIGN = {
    b"HTTP/1": "answers in HTTP/1, as no broker does: check the port",
    b"\x15\x03": "answers with an alert of TLS: check 'tls.broker' and the port",
}
"""What begins an answer that comes from no broker, or from one that clients cannot be connected to."""

Protocol = TypeVar("Protocol", bound=asyncio.Protocol)


class Dialler:
    """Connects to addresses of one broker.

    :param tls: what the broker speaks.
    :param limit_s: longest time for one address.
    :param loop: the running event loop.
    :param refusal: says why an address is not connected to, by the broker's host and port and the resolved
        address; empty if it is.
    """

    def __init__(
        self,
        tls: TlsContexts,
        limit_s: float,
        loop: asyncio.AbstractEventLoop,
        refusal: Callable[[Endpoint, str], str] = lambda address, resolved: "",
    ) -> None:
        self._tls = tls
        self._limit_s = limit_s
        self._loop = loop
        self._refusal = refusal

    async def dial(self, make: Callable[[], Protocol], address: Endpoint) -> Protocol:
        """Connect to one address.

        :param make: makes the protocol of the connection.
        :raises OSError: if it is not available, or refused; TimeoutError if nothing came back in time.
        :raises UnicodeError: if the host is no valid name.
        """
        try:
            async with asyncio.timeout(self._limit_s):
                *others, last = await self._resolved(address)
                for host in others:
                    # Of several addresses only the last one's error is told: those of one name mostly fail
                    # alike.
                    with suppress(OSError):
                        return await self._connect(make, host, address)
                return await self._connect(make, last, address)
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._limit_s:g} s") from error

    async def _resolved(self, address: Endpoint) -> list[str]:
        """The addresses of a host that may be connected to.

        They are resolved here, so that what is connected to is what was looked at.
        """
        infos = await self._loop.getaddrinfo(*address, type=socket.SOCK_STREAM)
        refusals = {str(each[4][0]): self._refusal(address, str(each[4][0])) for each in infos}
        allowed = [ip for ip, refusal in refusals.items() if not refusal]
        if not allowed:
            raise ConnectionError(next(iter(refusals.values()), "its host has no address"))
        # A resolved address lacks the interface's name.
        return [address[0]] if "%" in address[0] else allowed

    async def _connect(self, make: Callable[[], Protocol], host: str, address: Endpoint) -> Protocol:
        tls = self._tls
        name = (tls.server_name or address[0]) if tls.broker else None
        _, protocol = await self._loop.create_connection(
            make, host, address[1], ssl=tls.broker, server_hostname=name
        )
        return protocol


class _Probe(asyncio.Protocol):
    """One connection that tests whether the broker answers.

    :param greeting: sent to it; empty if a connection suffices.
    """

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting
        self._transport: asyncio.Transport | None = None
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker accepted."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not instances of it
        if self._greeting:
            self._transport.write(self._greeting)
        else:
            self.answered.set_result(None)

    def data_received(self, data: bytes) -> None:
        """The broker has sent bytes: it is alive, unless they come from a server of another kind."""
        if self.answered.done():
            return
        problem = next((text for start, text in _FOREIGN.items() if data.startswith(start)), None)
        if problem is None:
            self.answered.set_result(None)
        else:
            self.answered.set_exception(ConnectionError(problem))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if not self.answered.done():
            self.answered.set_exception(ConnectionError("closes connections without an answer"))

    def close(self) -> None:
        """Hang up."""
        self.answered.cancel()
        if self._transport is not None:
            self._transport.close()


class Prober:
    """Probes the addresses of one broker when they are due.

    :param reachability: chooses them, and gets the results.
    :param dialler: connects.
    :param greeting: bytes that the broker answers at once, to any sender; empty if there are none.
    """

    def __init__(self, reachability: Reachability, dialler: Dialler, greeting: bytes) -> None:
        self._reachability = reachability
        self._dialler = dialler
        self._greeting = greeting
        self._tasks = BackgroundTasks("probes")

    def begin(self, now_ns: int) -> None:
        """Begin the probes that are due."""
        for address in self._reachability.due(now_ns):
            self._tasks.spawn(self._probe(address))

    async def first(self, limit_s: float) -> None:
        """Probe all addresses, and wait a short time for the results.

        :param limit_s: longest time to wait; slower probes go on.
        """
        self.begin(monotonic_ns())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)

    async def stop(self) -> None:
        """End all probes."""
        await self._tasks.cancel()

    async def _probe(self, address: Endpoint) -> None:
        error: Exception | None = None
        try:
            await self._ask(address)
        except (OSError, UnicodeError) as failure:
            if isinstance(failure, OSError) and failure.errno in NO_DESCRIPTORS:
                self._reachability.unprobed(address, monotonic_ns())
                return
            error = failure
        self._reachability.probed(address, error, monotonic_ns())

    async def _ask(self, address: Endpoint) -> None:
        probe = await self._dialler.dial(lambda: _Probe(self._greeting), address)
        try:
            async with asyncio.timeout(_ANSWER_S):
                await probe.answered
        except TimeoutError as error:
            # Not a TimeoutError: the address accepts, so clients still try it.
            raise ConnectionError(f"accepts connections and says nothing within {_ANSWER_S:g} s") from error
        finally:
            probe.close()
