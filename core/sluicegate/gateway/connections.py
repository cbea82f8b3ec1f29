"""What all client connections of one broker share: dialling, limits, counters, the sweep."""

import asyncio
import logging
import resource
import socket
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from sluicegate.broker import BrokerFront, Listener, NextTurn
from sluicegate.config import BrokerConfig
from sluicegate.gateway.dialling import NO_DESCRIPTORS, Dialler, Prober
from sluicegate.gateway.logs import Throttle
from sluicegate.gateway.reachability import NO_ANSWER, Place, Reachability, reason_of
from sluicegate.gateway.reading import ENDING
from sluicegate.gateway.relay import ClientSide, UpstreamSide
from sluicegate.gateway.splicing import Pipes
from sluicegate.gateway.tls import TlsContexts
from sluicegate.gateway.turns import Turns

log = logging.getLogger(__name__)

_MS = 1_000_000
_SPARE_DESCRIPTORS = 128
"""For listeners, logs, the store and what plugins open."""
_PARTING_NS = 1_000_000_000
"""While draining: how long a closed connection may take to send what is queued."""
_ANSWER_NS = 3_000_000_000
"""While draining: how long a broker may take for an answer; some requests have none."""
_SLICE = 256
"""Connections that are swept before others get their turn."""
_UNREACHABLE = "upstream_unreachable"
_QUIET_ENDS = frozenset({"client_gone"})
"""Ends that are everyday life; counted, and logged for debugging only."""


def raise_descriptor_limit() -> int:
    """Allow this process as many descriptors as the system lets it have.

    :return: the limit now in force.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what clients may use; times in ns."""

    max_connections: int
    idle_ns: int
    frame_ns: int
    buffer_bytes: int
    answer_s: float
    dial_s: float = 5.0
    """For each address of the broker."""
    handshake_s: float = 10.0
    linger_ns: int = 5_000_000_000
    """How long a closed connection may take to send what is queued."""

    @classmethod
    def of(cls, config: BrokerConfig) -> "Limits":
        """Limits as configured; without `max_connections`, half of the descriptors are for clients."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return cls(
            max_connections=config.max_connections or max(1, (descriptors - _SPARE_DESCRIPTORS) // 2),
            idle_ns=config.idle_timeout * _MS,
            frame_ns=config.frame_timeout * _MS,
            buffer_bytes=config.buffer_budget,
            answer_s=config.max_hold / 1000,
        )


class Connections:
    """All client connections of one broker.

    :param front: gives the sessions and answers their questions.
    :param limits: bounds.
    :param tls: for both sides.
    :param loop: the running event loop.
    :param reachability: is told of dials, and whose probes are made.
    """

    def __init__(
        self,
        front: BrokerFront,
        limits: Limits,
        tls: TlsContexts,
        loop: asyncio.AbstractEventLoop,
        reachability: Reachability,
    ) -> None:
        self.front = front
        self.limits = limits
        self.loop = loop
        self.counts: Counter[str] = Counter()
        self.bytes_from_clients = 0
        self.bytes_from_brokers = 0
        self.buffered_bytes = 0
        """Bytes that all connections kept in memory at the last sweep."""
        self._tls = tls
        self.is_tls = bool(tls.client or tls.broker)
        self.reachability = reachability
        self._dialler = Dialler(tls, limits.dial_s, loop)
        self.prober = Prober(reachability, self._dialler, getattr(front, "greeting", b""))
        self.pipes = Pipes()
        self.turns = Turns(loop)
        self._live: set[ClientSide] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._arriving = 0
        self._throttle = Throttle()
        self._last_good: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._live) + self._arriving

    @property
    def has_room(self) -> bool:
        """True if another client may connect."""
        return len(self) < self.limits.max_connections

    def count(self, event: str) -> None:
        """Count an event by name."""
        self.counts[event] += 1

    def say(self, level: int, event: str, text: str, **fields: object) -> None:
        """Write a log line, at most one a second for each event.

        :param level: of the logging package.
        :param event: what lines are thinned out by.
        :param text: the line.
        :param fields: further fields of the line; `exc_info` gives a traceback.
        """
        left_out = self._throttle.passes(event, monotonic_ns())
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
        self.counts["connections_accepted"] += 1
        self._arriving += 1
        side = ClientSide(self, listener, peer, client.fileno())
        self._spawn(self._begin(side, client, listener))

    async def _begin(self, side: ClientSide, client: socket.socket, listener: Listener) -> None:
        handshake_s = self.limits.handshake_s if self._tls.client else None
        try:
            await self.loop.connect_accepted_socket(
                lambda: side, client, ssl=self._tls.client, ssl_handshake_timeout=handshake_s
            )
        except OSError as error:
            client.close()
            self.counts["client_handshakes_failed"] += 1
            self.say(logging.INFO, "handshake", f"client did not connect: {error}", client=side.peer)
            return
        finally:
            self._arriving -= 1
        if not listener.upstream:
            side.begin()
            return
        if side.session is None:
            side.hold_back_reading()
        await self._dial(side, listener.name, listener.upstream)

    def dial(self, side: ClientSide, addresses: tuple[tuple[str, int], ...]) -> None:
        """Connect a client to the broker that its session asked for."""
        self._spawn(self._dial(side, str(addresses[0]), addresses))

    async def _dial(self, side: ClientSide, name: str, addresses: tuple[tuple[str, int], ...]) -> None:
        """Try the broker's addresses in turn, beginning with the one that worked last."""
        first = self._last_good.get(name, 0)
        count = len(addresses)
        reason = NO_ANSWER
        for place in range(count):
            candidate = (first + place) % count
            address = addresses[candidate]
            if self.reachability.is_silent(address):
                continue
            try:
                await self._dialler.dial(lambda: UpstreamSide(side), address)
            except (OSError, UnicodeError) as error:  # a name that is no host name at all is a UnicodeError
                reason = reason_of(error)
                self._dial_failed(address, error)
            else:
                self.reachability.dialled(address, monotonic_ns())
                if count > 1:
                    self._last_good[name] = candidate
                return
            if side.closing_ns:
                return
        side.undialled(reason)

    def _dial_failed(self, address: Place, error: OSError | UnicodeError) -> None:
        self.counts["upstream_dials_failed"] += 1
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
            self.descriptors_used_up(error)
            return
        now_ns = monotonic_ns()
        self.reachability.dial_failed(address, error, now_ns)
        self.prober.begin(now_ns)

    def descriptors_used_up(self, error: OSError) -> None:
        """Say so: one client was turned away for want of a descriptor."""
        self.counts["descriptors_used_up"] += 1
        self.say(
            logging.ERROR,
            "descriptors",
            f"file descriptors used up, turning clients away: {error.strerror}; raise the limit (ulimit -n) "
            "or set max_connections",
        )

    def refused(self, peer: str) -> None:
        """A client was turned away because there are enough of them."""
        self.counts["connections_refused"] += 1
        limit = self.limits.max_connections
        text = f"connection refused: {limit} clients are connected; raise max_connections"
        self.say(logging.WARNING, "refused", text, client=peer)

    def opened(self, client: ClientSide) -> None:
        """A client is connected."""
        self._live.add(client)

    def forget(self, client: ClientSide) -> None:
        """Both connections of a client are gone."""
        if client in self._live:
            self._live.remove(client)
            self.counts["connections_closed"] += 1

    def closing(self, client: ClientSide, counter: str, detail: str, now_ns: int) -> None:
        """A connection is closed for a reason that is counted and logged."""
        self.counts[counter] += 1
        if counter == _UNREACHABLE:  # told of all clients together
            self.reachability.turned_away(now_ns)
            return
        level = logging.DEBUG if counter in _QUIET_ENDS else logging.WARNING
        self.say(
            level, f"close {counter}", f"closing connection: {counter}", client=client.name, detail=detail
        )

    def session_failed(self, client: ClientSide, error: Exception) -> None:
        """A session raised: that is a bug; its client is closed, all others are served."""
        self.counts["session_faults"] += 1
        kind = f"{type(error).__name__}: {error}"
        self.say(logging.ERROR, f"fault {kind}", f"session raised {kind}", client=client.peer, exc_info=error)

    # -- questions --------------------------------------------------------------------------------

    def ask(self, client: ClientSide, question: object) -> None:
        """Have the front answer a session's question, unless it only asks for a turn."""
        if isinstance(question, NextTurn):
            self.turns.ask(client, question)
            return
        self._spawn(self._answer(client, question))

    async def _answer(self, client: ClientSide, question: object) -> None:
        answer: object
        try:
            async with asyncio.timeout(self.limits.answer_s):
                answer = await self.front.answer(question)
        except Exception as error:  # noqa: BLE001 - the session decides what an unknown answer means
            self.counts["questions_failed"] += 1
            answer = error
        client.answered(question, answer)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- once a second ----------------------------------------------------------------------------

    async def sweep(self, now_ns: int) -> None:
        """Apply time-outs and the bound on buffered bytes.

        :param now_ns: monotonic time.
        """
        limits = self.limits
        sizes: list[tuple[int, int, ClientSide]] = []
        total = 0
        for place, client in enumerate(tuple(self._live)):
            kept = client.sweep(now_ns, limits.idle_ns, limits.frame_ns, limits.linger_ns)
            if kept:
                total += kept
                sizes.append((kept, place, client))
            if place % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        self.buffered_bytes = total
        if total > limits.buffer_bytes > 0:
            self._relieve(sizes, total - limits.buffer_bytes)

    def _relieve(self, sizes: list[tuple[int, int, ClientSide]], excess: int) -> None:
        """Close the clients that keep most, until the rest fits."""
        for kept, _, client in sorted(sizes, reverse=True):
            client.close("buffer_budget_used_up", f"{kept} bytes buffered for this client")
            client.abort()
            excess -= kept
            if excess <= 0:
                return

    # -- the end ----------------------------------------------------------------------------------

    async def drain(self, deadline_s: float, quiet_s: float = 0.3) -> None:
        """Take nothing new from clients, let what is held or under way end, then close all.

        :param deadline_s: longest time to wait, in seconds.
        :param quiet_s: a client from whom nothing is held is closed after so long without bytes.
        """
        until_ns = monotonic_ns() + int(deadline_s * 1e9)
        quiet_ns = int(quiet_s * 1e9)
        for client in tuple(self._live):
            client.pause(ENDING)
        while self._live and monotonic_ns() < until_ns:
            now_ns = monotonic_ns()
            for client in tuple(self._live):
                if client.closing_ns:
                    if now_ns - client.closing_ns > _PARTING_NS:
                        client.abort()
                elif client.at_rest and now_ns - client.last_ns > (
                    _ANSWER_NS if client.unanswered else quiet_ns
                ):
                    client.close()
            await asyncio.sleep(0.02)
        await self.abort()

    async def abort(self) -> None:
        """Close all connections at once, and stop all tasks."""
        await asyncio.sleep(0)  # a task that never ran would not close the client that it was given
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.prober.stop()
        await asyncio.sleep(0)  # a client whose task was ended in the middle is told of its transport yet
        for client in tuple(self._live):
            client.abort()
        self.pipes.close()
        for _ in range(3):  # lets transports report that they are closed
            await asyncio.sleep(0)
