"""Duplicates of a worker's listening sockets: clients wait while it restarts, instead of being refused."""

import asyncio
import logging
import os
import select
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from threading import Lock
from time import monotonic
from typing import Any, Final

from sluicegate.net.listening import descriptors
from sluicegate.net.listening.sockets import bind

log = logging.getLogger(__name__)

_ANSWER_S: Final = 5.0
"""How long a worker waits for a socket. A supervisor answers at once, unless it hangs."""


class HeldListeners:
    """The supervisor's end: the listening sockets of one worker, by the listener's name.

    :param sockets: what the first process is to listen on.
    """

    def __init__(self, sockets: Iterable[tuple[str, socket.socket]] = ()) -> None:
        self.sockets = dict(sockets)
        self.siblings: Sequence[HeldListeners] = ()
        """Those of all workers of the broker, this one too, if it has several: they share their sockets."""
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
            if "wanted" in message:
                self._give(message)
                continue
            known = self.sockets.pop(str(message["listener"]), None)
            if known is not None:
                known.close()
            for descriptor in opened:
                self.sockets[message["listener"]] = socket.socket(fileno=descriptor)

    def _give(self, message: Mapping[str, Any]) -> None:
        """Give a worker the socket of an address: a sibling's, or a new one."""
        if self._channel is None:
            return
        name, host, port, number = (message[key] for key in ("wanted", "host", "port", "number"))
        try:
            bound = self._sibling_socket(name, host, port) or bind(
                name, host, port, socket.AddressFamily(message["family"])
            )
        except OSError as error:
            with suppress(OSError):
                descriptors.send(self._channel, {"number": number, "errno": error.errno})
            return
        # Before the worker announces it: a sibling may ask meanwhile.
        if (known := self.sockets.pop(name, None)) is not None:
            known.close()
        self.sockets[name] = bound
        with suppress(OSError):
            descriptors.send(self._channel, {"number": number}, [bound])

    def _sibling_socket(self, name: str, host: str, port: int) -> socket.socket | None:
        for sibling in self.siblings:
            for known, bound in sibling.sockets.items():
                its_host, its_port = bound.getsockname()[:2]
                if its_host == host and (its_port == port if port else known == name):
                    return descriptors.duplicate(bound)
        return None


class Announcer:
    """The worker's end.

    :param channel: to the supervisor.
    :param sharing: whether siblings listen on the same sockets.
    """

    def __init__(self, channel: socket.socket, *, sharing: bool = False) -> None:
        channel.setblocking(False)
        self._channel = channel
        self.sharing = sharing
        self._numbers = count(1)
        self._asking = Lock()

    def shared(self, name: str, host: str, port: int, family: socket.AddressFamily) -> socket.socket | None:
        """The socket that all workers of the broker listen on; for any thread.

        :param host: an address, not a host's name.
        :return: None if there is no supervisor to ask, or none that answers.
        :raises OSError: if the address is not available.
        """
        with self._asking:
            number = next(self._numbers)
            wanted = {"wanted": name, "host": host, "port": port, "family": int(family), "number": number}
            try:
                descriptors.send(self._channel, wanted)
                answer = self._answer(number)
            except (OSError, ValueError):
                return None
        if answer is None:
            return None
        code, bound = answer
        if bound is None:
            raise OSError(code, os.strerror(code))
        return bound

    def _answer(self, number: int) -> tuple[int, socket.socket | None] | None:
        """The answer to a request: an error's number, or a socket; None if none comes."""
        until_s = monotonic() + _ANSWER_S
        while select.select([self._channel], [], [], max(0.0, until_s - monotonic()))[0]:
            heard = descriptors.receive(self._channel)
            if heard is None:
                return None
            message, opened = heard
            sockets = [socket.socket(fileno=descriptor) for descriptor in opened]
            if message["number"] == number:
                return message.get("errno") or 0, sockets[0] if sockets else None
            for late in sockets:  # of a request that waited no longer
                late.close()
        return None

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
