"""Duplicates of a worker's listening sockets: clients wait while it restarts, instead of being refused."""

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress

from sluicegate.net.listening import descriptors

log = logging.getLogger(__name__)


class HeldListeners:
    """The supervisor's end: the listening sockets of one worker, by the listener's name.

    :param sockets: what the first process is to listen on.
    """

    def __init__(self, sockets: Iterable[tuple[str, socket.socket]] = ()) -> None:
        self.sockets = dict(sockets)
        self._channel: socket.socket | None = None

    def follow(self, channel: socket.socket) -> None:
        """Track the sockets that a new process opens and closes from now on.

        :param channel: to the process, non-blocking; owned from here on.
        """
        self.unfollow()
        self._channel = channel
        asyncio.get_running_loop().add_reader(channel, self._hear)

    def unfollow(self) -> None:
        """Stop tracking the process; its sockets stay."""
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None

    def let_go(self) -> None:
        """Close all: clients are refused where no other process listens."""
        self.unfollow()
        for bound in self.sockets.values():
            bound.close()
        self.sockets.clear()

    def _hear(self) -> None:
        while self._channel is not None:
            try:
                heard = descriptors.receive(self._channel)
            except BlockingIOError:
                return
            except (OSError, ValueError) as error:
                log.error("cannot follow what a worker listens on: %s", error)
                heard = None
            if heard is None:
                self.unfollow()
                return
            message, opened = heard
            known = self.sockets.pop(str(message["listener"]), None)
            if known is not None:
                known.close()
            for descriptor in opened:
                self.sockets[message["listener"]] = socket.socket(fileno=descriptor)


class Announcer:
    """The worker's end.

    :param channel: to the supervisor.
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel

    def opened(self, name: str, bound: socket.socket) -> None:
        """A listener is open."""
        self._send({"listener": name}, [bound])

    def closed(self, name: str) -> None:
        """A listener is closed while the process continues."""
        self._send({"listener": name}, [])

    def _send(self, message: Mapping[str, object], sockets: list[socket.socket]) -> None:
        # There may be no supervisor; what its buffer does not take is bound again after a crash.
        with suppress(OSError):
            descriptors.send(self._channel, message, sockets)
