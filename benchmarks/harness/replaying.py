"""Gives a conversation to a gateway's relay without sockets, and takes the CPU time.

It also runs in earlier trees, back to 7cc81e9: it imports only what all of them have, if by another name, and
handles the few differences.
"""

import asyncio
import base64
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from unittest.mock import patch

import benchmarks.harness.earlier_trees  # noqa: F401 - before what follows
from benchmarks.harness.fake_transport import FakeTransport
from sluicegate.broker import Listener
from sluicegate.net.connections import Connections
from sluicegate.net.relaying import relay
from sluicegate.processes.worker import Worker

try:
    from sluicegate.net.relaying.upstream_side import UpstreamSide
except ImportError:  # an earlier tree
    UpstreamSide = relay.UpstreamSide  # type: ignore[misc, attr-defined]

try:
    from sluicegate.processes.collecting import begin as begin_collecting
except ImportError:  # an earlier tree

    def begin_collecting() -> None:
        """Collect garbage as the tree's worker does."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000)


__all__ = ["QuietWorker", "Replay", "begin_collecting"]

_UNTIMED = 10
"""The first of so many parts of the reads is not timed: it warms caches."""
_READS_OF_A_TURN = 50
"""Reads in a row before the event loop runs. A worker looks into a loop that is blocked for long."""
_MOST_S = 30.0


class QuietWorker(Worker):
    """A worker that only remembers where clients would connect."""

    bootstrap: Listener | None = None

    async def listen(self, listener: Listener) -> None:
        """Remember the first one."""
        self.bootstrap = self.bootstrap or listener

    @property
    def connections(self) -> Connections:
        """What all connections of the broker share."""
        return self._running


class Replay:
    """A conversation that a worker's relay gets again and again, on a new connection each time.

    :param worker: has been started.
    :param conversation: opening and reads, as `Conversation.as_json` writes them.
    :param descriptor: stands for the client's socket, which the worker looks at to see if the client is gone.
    :param transport: makes the ends of a connection.
    """

    def __init__(
        self,
        worker: QuietWorker,
        conversation: Mapping[str, Any],
        descriptor: int,
        transport: Callable[[], FakeTransport] = FakeTransport,
    ) -> None:
        self._worker = worker
        self._opening, self._reads = (
            [(bool(is_client), base64.b64decode(text)) for is_client, text in conversation[part]]
            for part in ("opening", "reads")
        )
        self._descriptor = descriptor
        self._transport = transport
        self.client, self.broker = transport(), transport()
        """The ends of the last connection."""

    async def once(self) -> int:
        """Replay the conversation.

        :return: CPU time of this thread in ns, without the opening and the first reads.
        :raises RuntimeError: if the client is hung up on, or bytes are held back.
        """
        self.client, self.broker = self._transport(), self._transport()
        connections = self._worker.connections
        listener = cast("Listener", self._worker.bootstrap)
        client = relay.ClientSide(connections, listener, "127.0.0.1:5000", self._descriptor)
        upstream = UpstreamSide(client)
        client.connection_made(cast("asyncio.Transport", self.client))
        if not listener.upstream:
            client.begin()
        await self._open(client, upstream)
        untimed = len(self._reads) // _UNTIMED
        await self._give(self._reads[:untimed], client, upstream)
        began_ns = time.thread_time_ns()
        await self._give(self._reads[untimed:], client, upstream)
        spent_ns = time.thread_time_ns() - began_ns
        held = client.session.held_bytes if client.session is not None else 0
        if self.client.is_closed or held:
            raise RuntimeError(f"{held} bytes held, or hung up: {dict(connections.counts)}")
        client.abort()
        client.connection_lost(None)
        upstream.connection_lost(None)
        return spent_ns

    async def _open(self, client: relay.ClientSide, upstream: UpstreamSide) -> None:
        """Give the opening; the broker is connected at the client's first bytes, or once it is dialled."""
        dialled: list[object] = []
        with patch.object(self._worker.connections, "dial", lambda *args, **_: dialled.append(args)):
            for is_client, data in self._opening:
                (client if is_client else upstream).data_received(data)
                if (dialled or client.session is None) and not hasattr(upstream, "transport"):
                    upstream.connection_made(cast("asyncio.Transport", self.broker))
                await self._settle()

    async def _give(
        self, reads: Sequence[tuple[bool, bytes]], client: relay.ClientSide, upstream: UpstreamSide
    ) -> None:
        """Have the relay read; where it asks for no more, the loop goes on first."""
        from_broker, from_client = upstream.data_received, client.data_received
        client_end, broker_end = self.client, self.broker
        for place, (is_client, data) in enumerate(reads):
            if is_client:
                from_client(data)
            else:
                from_broker(data)
            if not (client_end.is_read and broker_end.is_read):
                await self._settle()
            elif place % _READS_OF_A_TURN == 0:
                await asyncio.sleep(0)

    async def _settle(self) -> None:
        """Let the loop go on until the relay reads from both ends."""
        give_up = asyncio.get_running_loop().time() + _MOST_S
        while not (self.client.is_closed or (self.client.is_read and self.broker.is_read)):
            if asyncio.get_running_loop().time() > give_up:
                raise RuntimeError(f"the relay has not read on for {_MOST_S} s")
            await asyncio.sleep(0)
