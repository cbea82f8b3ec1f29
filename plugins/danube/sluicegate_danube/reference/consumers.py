"""A consumer: its identity, and the messages that wait for its stream."""

import asyncio
from collections import deque
from fnmatch import fnmatchcase

from danube.proto import DanubeApi_pb2 as pb


class Consumer:
    """A consumer of a subscription. It keeps its id when its client reconnects with the same name.

    :param consumer_id: what its stream and its health checks name.
    :param name: the name that its client chose.
    :param subscription: the subscription's name.
    :param filters: glob patterns of routing keys (KeyShared); none: any key.
    """

    def __init__(self, consumer_id: int, name: str, subscription: str, filters: tuple[str, ...]) -> None:
        self.consumer_id = consumer_id
        self.name = name
        self.subscription = subscription
        self.attached = True
        """False from the end of its stream until it comes again."""
        self._filters = filters
        self._waiting: deque[pb.StreamMessage] = deque()
        self._waiting_bytes = 0
        self._session = 0
        self._changed = asyncio.Event()

    def accepts(self, key: str) -> bool:
        """Whether messages of a routing key may go to it."""
        return not self._filters or any(fnmatchcase(key, pattern) for pattern in self._filters)

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

        :returns: the number of this session, for `next`.
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

        :returns: None when another session took over.
        """
        while self.owns(session):
            if self._waiting:
                message = self._waiting.popleft()
                self._waiting_bytes -= len(message.payload)
                return message
            self._changed.clear()
            await self._changed.wait()
        return None
