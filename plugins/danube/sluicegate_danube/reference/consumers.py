"""A consumer: its identity, and the messages that wait for its stream."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from danube.proto import DanubeApi_pb2 as pb


@dataclass(eq=False)
class Consumer:
    """A consumer of a subscription. It keeps its id when its client reconnects with the same name."""

    consumer_id: int
    """What its stream and its health checks name."""
    name: str
    """The name that its client chose."""
    subscription: str
    """The subscription's name."""
    filters: tuple[str, ...]
    """Glob patterns of routing keys (KeyShared); none: any key."""
    attached: bool = True
    """False from the end of its stream until it comes again."""
    _waiting: deque[pb.StreamMessage] = field(default_factory=deque)
    _waiting_bytes: int = 0
    _session: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def accepts(self, key: str) -> bool:
        """Whether messages of a routing key may go to it."""
        return not self.filters or any(fnmatchcase(key, pattern) for pattern in self.filters)

    def has_room(self, messages: int, size: int) -> bool:
        """Whether fewer than so many messages and bytes are queued.

        :param messages: how many.
        :param size: bytes of payload.
        """
        return len(self._waiting) < messages and self._waiting_bytes < size

    def give(self, message: pb.StreamMessage) -> None:
        """Queue a message for its stream."""
        self._waiting.append(message)
        self._waiting_bytes += len(message.payload)
        self._changed.set()

    def take_over(self) -> int:
        """A client attaches to it, by Subscribe or a stream: an earlier stream ends. Queued messages stay.

        :return: the number of this session, for `next`.
        """
        self.attached = True
        self._session += 1
        self._changed.set()
        return self._session

    def clear(self) -> None:
        """Discard its queued messages."""
        self._waiting.clear()
        self._waiting_bytes = 0

    def leave(self) -> None:
        """Its stream ended: discard its queued messages."""
        self.attached = False
        self.clear()

    def owns(self, session: int) -> bool:
        """Whether a session is still the latest."""
        return session == self._session

    async def next(self, session: int) -> pb.StreamMessage | None:
        """Wait for a message.

        :return: None when another session took over.
        """
        while self.owns(session):
            if self._waiting:
                message = self._waiting.popleft()
                self._waiting_bytes -= len(message.payload)
                return message
            self._changed.clear()
            await self._changed.wait()
        return None
