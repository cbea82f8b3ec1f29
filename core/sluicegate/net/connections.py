"""Shared by all client connections of one broker: dialling, limits, counters, the sweep."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Any

from sluicegate.broker import BaseFront, BaseSession, Listener, NextTurn
from sluicegate.engine.budget import Budget
from sluicegate.model import ANONYMOUS, CloseReason, ConnectionClose, ConnectionEvent, SessionClose
from sluicegate.net.admission import ConnectionPlaces
from sluicegate.net.background import BackgroundTasks
from sluicegate.net.dialling import NO_DESCRIPTORS, Dialler, Prober
from sluicegate.net.limits import Limits
from sluicegate.net.reachability import NO_ANSWER, Endpoint, Reachability, reason_of
from sluicegate.net.relaying.draining import drain
from sluicegate.net.relaying.relay import ClientSide
from sluicegate.net.relaying.splicing import Pipes
from sluicegate.net.relaying.turns import Turns
from sluicegate.net.relaying.upstream_side import UpstreamSide
from sluicegate.net.relief import largest_first
from sluicegate.net.tls import TlsContexts
from sluicegate.pacing.log_throttle import LineLimiter

log = logging.getLogger(__name__)

_RELIEF_NS = 100_000_000
"""Shortest time between two looks for the largest users."""
_SLICE = 256
"""Connections that are swept in one turn of the event loop."""
_QUIET_ENDS = frozenset({SessionClose.CLIENT_GONE})
"""Ordinary ends of connections: counted, and logged for debugging only."""


def _taken_bytes(client: ClientSide) -> int:
    """Bytes that a client takes, those that no budget counts included."""
    return client.kept_bytes + (client.session.places_bytes if client.session is not None else 0)


class Connections:
    """All client connections of one broker.

    :param front: gives the sessions and answers their questions.
    :param limits: bounds.
    :param tls: for both sides.
    :param loop: the running event loop.
    :param reachability: gets the outcome of dials, and schedules probes.
    :param budget: what all sessions may hold together; relieved here when little of it is left.
    :param dialler: connects to brokers; by default to any address.
    """

    def __init__(
        self,
        front: BaseFront,
        limits: Limits,
        tls: TlsContexts,
        loop: asyncio.AbstractEventLoop,
        reachability: Reachability,
        budget: Budget | None = None,
        *,
        dialler: Dialler | None = None,
    ) -> None:
        self.front = front
        self.limits = limits
        self.loop = loop
        self.counts: Counter[str] = Counter()
        self.bytes_from_clients = 0
        self.bytes_from_brokers = 0
        self.buffered_bytes = 0
        """Bytes that all connections kept in memory at the last sweep."""
        self.budget = budget or Budget(limits.buffer_bytes)
        self.budget.on_pressure = self._pressed
        self.admission = ConnectionPlaces(limits)
        self._tls = tls
        self.is_tls = bool(tls.client or tls.broker)
        self.is_client_tls = bool(tls.client)
        self.reachability = reachability
        self._dialler = dialler or Dialler(tls, limits.dial_s, loop)
        self.prober = Prober(reachability, self._dialler, front.greeting)
        self.pipes = Pipes()
        self.turns = Turns(loop)
        self._live: dict[ClientSide, None] = {}
        """In the order in which they came."""
        self._queued_since = 0
        """Bytes that clients were found not to read since the last sweep."""
        self._swept_ns = 0
        self._is_sweeping = False
        self._relief: asyncio.TimerHandle | None = None
        """The next sweep, if it must come before the regular one."""
        self._tasks = BackgroundTasks("client connections")
        self._arriving = 0
        self._cut_off: list[ClientSide] = []
        """Clients whose beginning was cancelled."""
        self._line_limiter = LineLimiter()
        self._last_good: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._live) + self._arriving

    def session(self, listener: Listener, peer: str, now_ns: int) -> BaseSession:
        """A session of the front.

        :raises TypeError: if it is none.
        """
        session = self.front.session(listener, peer, now_ns)
        if not isinstance(session, BaseSession):
            raise TypeError(f"session() of the front gave {session!r}, expected a BaseSession")
        return session

    def refusal(self, address: str) -> ConnectionEvent | None:
        """Why a client from this host may not connect; None if it may."""
        return self.admission.refusal(address, len(self))

    def count(self, event: ConnectionEvent | CloseReason) -> None:
        """Count an event, or a reason for closing."""
        self.counts[str(event)] += 1

    def say(self, level: int, event: str, text: str, **fields: object) -> None:
        """Write a log line, at most one a second for each event.

        :param level: of the logging package.
        :param event: the key by which lines are limited.
        :param text: the line.
        :param fields: further fields of the line; `exc_info` gives a traceback.
        """
        left_out = self._line_limiter.passes(event, monotonic_ns())
        if left_out is not None:
            exc_info: Any = fields.pop("exc_info", None)
            fields |= {"left_out": left_out} if left_out else {}
            log.log(level, text, extra=fields, exc_info=exc_info)

    # -- a connection's life ----------------------------------------------------------------------

    def accept(self, client: socket.socket, peer: str, listener: Listener) -> None:
        """Serve a client that has connected.

        :param client: its socket, non-blocking; owned from here on.
        :param peer: its address, `host:port`.
        :param listener: where it connected.
        """
        self.count(ConnectionEvent.ACCEPTED)
        self._arriving += 1
        side = ClientSide(self, listener, peer, client.fileno())
        self.admission.joined(side.address)
        self._tasks.spawn(self._begin(side, client, listener))

    async def _begin(self, side: ClientSide, client: socket.socket, listener: Listener) -> None:
        handshake_s = self.limits.handshake_s if self._tls.client else None
        try:
            await self.loop.connect_accepted_socket(
                lambda: side, client, ssl=self._tls.client, ssl_handshake_timeout=handshake_s
            )
        except OSError as error:
            # No transport has the socket yet, so nothing else closes it.
            client.close()
            self.admission.left(side.address)
            self.count(ConnectionEvent.HANDSHAKE_FAILED)
            self.say(logging.INFO, "handshake", f"client did not connect: {error}", client=side.peer)
            return
        except asyncio.CancelledError:
            self._cut_off.append(side)
            raise
        finally:
            self._arriving -= 1
        if not listener.upstream:
            side.begin()

    def dial(
        self,
        side: ClientSide,
        addresses: tuple[tuple[str, int], ...],
        name: str = "",
        *,
        in_order: bool = False,
    ) -> None:
        """Connect a client to a broker.

        :param side: the client.
        :param addresses: of the broker, tried one after the other.
        :param name: of the listener that it came to, if that is for one broker.
        :param in_order: begin with the first one each time; else with the one that worked last.
        """
        self._tasks.spawn(self._dial(side, name or str(addresses[0]), addresses, in_order=in_order))

    async def _dial(
        self, side: ClientSide, name: str, addresses: tuple[tuple[str, int], ...], *, in_order: bool
    ) -> None:
        first = 0 if in_order else self._last_good.get(name, 0)
        count = len(addresses)
        reason = NO_ANSWER
        for index in range(count):
            candidate = (first + index) % count
            address = addresses[candidate]
            if self.reachability.is_silent(address):
                continue
            try:
                await self._dialler.dial(
                    partial(UpstreamSide, side, stands_in=in_order and index > 0), address
                )
            except (OSError, UnicodeError) as error:  # an invalid host name raises UnicodeError
                reason = reason_of(error)
                self._dial_failed(address, error)
            else:
                self.reachability.dialled(address, monotonic_ns())
                if count > 1 and not in_order:
                    self._last_good[name] = candidate
                return
            # The client may have hung up while its broker was dialled.
            if side.closing_ns:
                return
        side.undialled(reason)

    def _dial_failed(self, address: Endpoint, error: OSError | UnicodeError) -> None:
        self.count(ConnectionEvent.DIAL_FAILED)
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
            self.descriptors_used_up(error)
            return
        now_ns = monotonic_ns()
        self.reachability.dial_failed(address, error, now_ns)
        self.prober.begin(now_ns)

    def descriptors_used_up(self, error: OSError) -> None:
        """Log that a client was refused for lack of descriptors."""
        self.count(ConnectionEvent.DESCRIPTORS_USED_UP)
        self.say(
            logging.ERROR,
            "descriptors",
            f"file descriptors used up, turning clients away: {error.strerror}; raise the limit (ulimit -n) "
            "or set max_connections",
        )

    def refused(self, peer: str, refusal: ConnectionEvent) -> None:
        """A client was refused.

        :param peer: its address.
        :param refusal: why, as `refusal` has it.
        """
        self.count(refusal)
        text = f"connection refused: {self.admission.remedy(refusal)}"
        self.say(logging.WARNING, refusal, text, client=peer)

    def opened(self, client: ClientSide) -> None:
        """A client is connected."""
        self._live[client] = None

    def forget(self, client: ClientSide) -> None:
        """Both connections of a client are closed."""
        if client in self._live:
            del self._live[client]
            self.admission.left(client.address)
            self.count(ConnectionEvent.ENDED)

    def closing(self, client: ClientSide, counter: CloseReason, detail: str, now_ns: int) -> None:
        """A connection is closed for a reason that is counted and logged."""
        self.count(counter)
        if counter == ConnectionClose.UPSTREAM_UNREACHABLE:  # logged for all clients together
            self.reachability.turned_away(now_ns)
            return
        level = logging.DEBUG if counter in _QUIET_ENDS else logging.WARNING
        self.say(
            level, f"close {counter}", f"closing connection: {counter}", client=client.name, detail=detail
        )

    def session_failed(self, client: ClientSide, error: Exception) -> None:
        """A session raised, which is a bug: close its client, and serve all others."""
        self.count(ConnectionEvent.SESSION_FAULT)
        kind = f"{type(error).__name__}: {error}"
        self.say(logging.ERROR, f"fault {kind}", f"session raised {kind}", client=client.peer, exc_info=error)

    # -- questions --------------------------------------------------------------------------------

    def ask(self, client: ClientSide, question: object) -> None:
        """Have the front answer a session's question, unless it only asks for a turn."""
        if isinstance(question, NextTurn):
            self.turns.slice(client.user, partial(client.answered, question, None))
            return
        self._tasks.spawn(self._answer(client, question))

    async def _answer(self, client: ClientSide, question: object) -> None:
        answer: object
        try:
            async with asyncio.timeout(self.limits.answer_s):
                answer = await self.front.answer(question)
        except Exception as error:  # noqa: BLE001 - the session decides what an unknown answer means
            self.count(ConnectionEvent.QUESTION_FAILED)
            answer = error
        client.answered(question, answer)

    # -- once a second, and when memory runs short --------------------------------------------------

    async def sweep(self, now_ns: int) -> None:
        """Apply time-outs and the bound on buffered bytes.

        :param now_ns: monotonic time.
        """
        # A sweep yields between its slices, and one for relief may come due meanwhile.
        if self._is_sweeping:
            return
        self._is_sweeping = True
        try:
            self._swept_ns = monotonic_ns()
            clients = tuple(self._live)
            kept = await self._measure(clients, lambda client: client.sweep(now_ns, self.limits))
            self._hold_to_shares(clients)
            budget = self.budget
            total = sum(size for size, _, _ in kept)
            self.buffered_bytes = total
            budget.others = max(0, total - budget.used)
            self._queued_since = 0
            if total > budget.mark > 0:
                self._close_largest(kept, total - budget.mark, ConnectionClose.BUFFER_BUDGET_USED_UP)
        finally:
            self._is_sweeping = False

    async def relieve(self, excess: int, counter: ConnectionClose) -> None:
        """Close the clients that take most memory, until enough bytes are freed; at least one.

        :param excess: bytes.
        :param counter: why, for metrics and logs.
        """
        kept = await self._measure(tuple(self._live), _taken_bytes)
        self._close_largest(kept, max(1, excess), counter)

    async def _measure(
        self, clients: tuple[ClientSide, ...], measure: Callable[[ClientSide], int]
    ) -> list[tuple[int, str, ClientSide]]:
        """The buffered bytes and the user of each client that has any."""
        kept = []
        for index, client in enumerate(clients):
            if size := measure(client):
                kept.append((size, client.user, client))
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return kept

    def _close_largest(
        self, kept: list[tuple[int, str, ClientSide]], excess: int, counter: ConnectionClose
    ) -> None:
        for size, client in largest_first(kept, excess):
            client.close(counter, f"{size} bytes buffered for this client")
            client.abort()

    def _hold_to_shares(self, clients: tuple[ClientSide, ...]) -> None:
        """Close the newest connections of principals above their share."""
        principals = (
            "" if client.closing_ns or client.principal == ANONYMOUS else client.principal
            for client in clients
        )
        for index in self.admission.beyond_share(principals):
            remedy = "raise principal_share or max_connections"
            clients[index].close(ConnectionClose.PRINCIPAL_SHARE_USED_UP, remedy)

    def queued(self, size: int) -> None:
        """Bytes are queued for a client that does not read."""
        self._queued_since += size
        budget = self.budget
        if budget.used + budget.others + self._queued_since > budget.mark > 0:
            self._pressed()

    def _pressed(self) -> None:
        """Memory is nearly exhausted: check the largest users soon, but not constantly."""
        if self._relief is None:
            wait_ns = max(0, self._swept_ns + _RELIEF_NS - monotonic_ns())
            self._relief = self.loop.call_later(wait_ns / 1e9, self._sweep_soon)

    def _sweep_soon(self) -> None:
        self._relief = None
        self._tasks.spawn(self.sweep(monotonic_ns()))

    # -- the end ----------------------------------------------------------------------------------

    async def drain(self, deadline_s: float, quiet_s: float = 0.3) -> None:
        """Accept no new requests, let pending ones end, then close all clients.

        :param deadline_s: longest time to wait, in seconds.
        :param quiet_s: if a session does not count its requests, its client is closed after this time without
            bytes.
        """
        await drain(self._live, deadline_s, quiet_s)
        await self.abort()

    async def abort(self) -> None:
        """Close all connections at once, and stop all tasks."""
        if self._relief is not None:
            self._relief.cancel()
        await asyncio.sleep(0)  # a task that never ran would not close the client that it was given
        await self._tasks.cancel()
        await self.prober.stop()
        await asyncio.sleep(0)  # a client whose task was cancelled still gets its transport
        for client in self._cut_off:
            client.cut_off()
        for client in tuple(self._live):
            client.abort()
        self.pipes.close()
        for _ in range(3):  # lets transports report that they are closed
            await asyncio.sleep(0)
