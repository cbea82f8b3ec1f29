"""Which worker of a broker serves a client that any of them has accepted, and how it gets there.

All workers accept from the same sockets. Whoever accepts a client asks the front what belongs together: the
connections of one key are for one worker, whether that lives or is being started again. Any other client
goes to the worker with fewest. A client that is for another worker goes through that worker's inbox, whose
ends the supervisor keeps: what is in it waits there while the worker is started again.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Protocol

from sluicegate.broker import BaseFront, Listener, Wait
from sluicegate.model import CloseReason, ConnectionClose, ConnectionEvent
from sluicegate.net.limits import Limits
from sluicegate.net.listening import descriptors
from sluicegate.net.listening.acceptor import Clients
from sluicegate.net.listening.first_bytes import MOST_BYTES, FirstBytes
from sluicegate.net.listening.shared_counts import SharedCounts

log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Clients taken in one turn of the loop, as in the acceptor."""
_MOST_WAITING = 128
"""Clients in one inbox. Their descriptors count for none of the processes, but in the kernel."""
_BEAT_S = 0.1


class ServedClients(Clients, Protocol):
    """What serves clients in this process; see `Connections`."""

    @property
    def front(self) -> BaseFront:
        """Says which clients belong together."""

    @property
    def limits(self) -> Limits:
        """Bounds on what clients may use."""

    def __len__(self) -> int:
        """How many clients are served."""

    def count(self, event: ConnectionEvent | CloseReason, /) -> None:
        """Count an event, or a reason for closing."""


class Siblings:
    """The workers of one broker, as one of them sees them. For its listeners it is what takes clients.

    :param index: of this worker, from 0.
    :param inbox: where clients come from the others.
    :param inboxes: where clients go to each worker, by index; this one, too.
    :param counts: descriptor of `shared_memory`. All are owned from here on.
    """

    def __init__(
        self, index: int, inbox: socket.socket, inboxes: Sequence[socket.socket], counts: int
    ) -> None:
        self.index = index
        self._inbox = inbox
        self._inboxes = inboxes
        self._counts = SharedCounts(counts, index, len(inboxes))
        for each in (inbox, *inboxes):
            each.setblocking(False)
        self._gone: set[int] = set()
        """Workers that have ended and that no supervisor starts again."""
        self._served: ServedClients | None = None
        self._first_bytes: FirstBytes | None = None
        self._next_beat: asyncio.TimerHandle | None = None

    @property
    def others(self) -> int:
        """How many other workers there are."""
        return len(self._inboxes) - 1

    def serve_by(self, served: ServedClients) -> None:
        """Listeners may be opened from now on.

        :param served: serves the clients that are for this worker.
        """
        self._served = served
        self._first_bytes = FirstBytes(served.loop, partial(served.count, ConnectionClose.LOGIN_TIMED_OUT))

    def begin(self, served: ServedClients) -> None:
        """Take clients from the others, from now on.

        :param served: as of `serve_by`.
        """
        if self._served is None:
            self.serve_by(served)
        served.loop.add_reader(self._inbox, self._hear)
        self._beat()

    def close(self) -> None:
        """Take no more clients; those that wait are closed, and may connect anew. Idempotent."""
        if self._inbox.fileno() < 0:
            return
        with suppress(OSError, ValueError):
            while (heard := descriptors.receive(self._inbox)) is not None:
                for descriptor in heard[1]:
                    os.close(descriptor)
        if self._first_bytes is not None:
            self._first_bytes.close()
        if self._served is not None:
            self._served.loop.remove_reader(self._inbox)
        if self._next_beat is not None:
            self._next_beat.cancel()
        self._counts.leave()
        self._counts.close()
        for each in (self._inbox, *self._inboxes):
            each.close()

    # -- for the acceptor -----------------------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop."""
        return self._serving.loop

    @property
    def is_client_tls(self) -> bool:
        """Whether clients speak TLS."""
        return self._serving.is_client_tls

    def refusal(self, address: str) -> None:
        """Refuse no client here: the worker that serves it decides."""

    def refused(self, peer: str, refusal: ConnectionEvent) -> None:
        """Do nothing: no client is refused here."""

    def descriptors_used_up(self, error: OSError) -> None:
        """A client was refused for lack of descriptors."""
        self._serving.descriptors_used_up(error)

    def accept(self, client: socket.socket, peer: str, listener: Listener) -> None:
        """Serve a client that has connected, here or elsewhere."""
        self._place(client, peer, listener, b"")

    # -- who serves a client ----------------------------------------------------------------------------

    @property
    def _serving(self) -> ServedClients:
        if self._served is None:
            raise RuntimeError("the worker has not begun to serve")
        return self._served

    def _place(self, client: socket.socket, peer: str, listener: Listener, first: bytes) -> None:
        key = self._key(peer, listener, first)
        if isinstance(key, Wait):
            self._wait(client, peer, listener, min(key.size, MOST_BYTES))
            return
        if key is None:
            chosen = self._fewest()
            if chosen == self.index or not self._pass_on(chosen, client, peer, listener):
                self._serve(client, peer, listener)
            return
        while (chosen := self._rendezvous(key)) != self.index:
            if self._pass_on(chosen, client, peer, listener):
                return
            if chosen not in self._gone:
                client.close()
                self._serving.count(ConnectionEvent.NOT_PASSED)
                return
        self._serve(client, peer, listener)

    def _key(self, peer: str, listener: Listener, first: bytes) -> bytes | Wait | None:
        """What the front says; None if it fails, or if it wants more than there can be."""
        serving = self._serving
        try:
            key = serving.front.affinity(listener, peer.rpartition(":")[0], first)
        except Exception:
            serving.count(ConnectionEvent.SESSION_FAULT)
            log.exception("affinity() of the front raised", extra={"client": peer})
            return None
        return None if isinstance(key, Wait) and len(first) >= min(key.size, MOST_BYTES) else key

    def _wait(self, client: socket.socket, peer: str, listener: Listener, size: int) -> None:
        if self._first_bytes is not None:
            patience_s = self._serving.limits.handshake_s
            place = partial(self._place, client, peer, listener)
            self._first_bytes.of(client, size, patience_s, place)

    def _fewest(self) -> int:
        """The worker with fewest clients, of those that are alive; this one if others have as many."""
        self._counts.beat(len(self._serving))
        alive = (each for each in range(len(self._inboxes)) if self._counts.is_alive(each))
        return min(alive, key=lambda each: (self._counts.load(each), each != self.index), default=self.index)

    def _rendezvous(self, key: bytes) -> int:
        """The worker of a key, the same for all workers (highest random weight)."""
        workers = (each for each in range(len(self._inboxes)) if each not in self._gone)
        return max(workers, key=lambda each: blake2b(key, digest_size=8, salt=b"%d" % each).digest())

    def _serve(self, client: socket.socket, peer: str, listener: Listener) -> None:
        serving = self._serving
        refusal = serving.refusal(peer.rpartition(":")[0])
        if 0 < serving.limits.connections_of_all <= len(serving) + self._elsewhere():
            refusal = refusal or ConnectionEvent.REFUSED
        if refusal:
            client.close()
            serving.refused(peer, refusal)
            return
        serving.accept(client, peer, listener)
        self._counts.beat(len(serving))

    def _elsewhere(self) -> int:
        """Clients that the other workers serve."""
        others = (each for each in range(len(self._inboxes)) if each != self.index)
        return sum(self._counts.connections(each) for each in others if self._counts.is_alive(each))

    # -- from one worker to another ---------------------------------------------------------------------

    def _pass_on(self, to: int, client: socket.socket, peer: str, listener: Listener) -> bool:
        """Pass a client to another worker; returns whether its inbox took it."""
        message = {"peer": peer, "listener": [listener.name, listener.host, listener.port, listener.upstream]}
        if self._counts.waiting(to) < _MOST_WAITING:
            self._counts.passes(to, 1)
            try:
                descriptors.send(self._inboxes[to], message, [client])
            except OSError as error:
                self._counts.passes(to, -1)
                if isinstance(error, BrokenPipeError | ConnectionError):
                    self._gone.add(to)
            else:
                client.close()
                return True
        return False

    def _hear(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                heard = descriptors.receive(self._inbox)
            except BlockingIOError:
                self._counts.took_all(self.index)
                return
            except (OSError, ValueError) as error:
                log.error("cannot take clients from other workers: %s", error)
                return
            if heard is None:  # all other ends are closed
                self.loop.remove_reader(self._inbox)
                return
            self._counts.takes()
            message, opened = heard
            name, host, port, upstream = message["listener"]
            listener = Listener(name, host, port, tuple(map(_address, upstream)))
            for descriptor in opened:
                client = socket.socket(fileno=descriptor)
                client.setblocking(False)
                self._serve(client, message["peer"], listener)
            if not opened:
                self.descriptors_used_up(OSError("the kernel kept the client"))

    def _beat(self) -> None:
        serving = self._serving
        self._counts.beat(len(serving))
        self._next_beat = serving.loop.call_later(_BEAT_S, self._beat)


def _address(of: Sequence[str | int]) -> tuple[str, int]:
    host, port = of
    return str(host), int(port)
