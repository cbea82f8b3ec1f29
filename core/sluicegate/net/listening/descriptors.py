"""Messages between processes of one machine that carry descriptors (SCM_RIGHTS)."""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

_LARGEST = 64 * 1024
"""Bytes of one message."""
MOST = 200
"""Descriptors of one message; Linux takes 253."""


class Described(Protocol):
    """Anything that has a descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends; each message arrives whole, and a closed end is noticed."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, message: Mapping[str, object], sent: Sequence[Described] = ()) -> None:
    """Send a message; the receiver gets descriptors of its own.

    :param sent: sockets and other things with descriptors, at most MOST.
    :raises OSError: if the other end is gone, or takes no more now (BlockingIOError).
    """
    data = json.dumps(message).encode()
    if sent:
        socket.send_fds(channel, [data], [one.fileno() for one in sent])
    else:
        channel.send(data)


def duplicate(bound: socket.socket) -> socket.socket:
    """Another descriptor of a socket that another process may use, too.

    `socket.dup` makes it blocking in both processes: the other's event loop would hang in `accept`.
    """
    return socket.socket(fileno=os.dup(bound.fileno()))


def receive(channel: socket.socket) -> tuple[Mapping[str, Any], list[int]] | None:
    """The next message and the descriptors that came with it; None when the other end is closed.

    :raises OSError: if nothing has come (BlockingIOError, TimeoutError), or the other end broke off.
    :raises ValueError: if it is not a message; its descriptors are closed.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, _LARGEST, MOST)
    for descriptor in descriptors:
        # Otherwise each worker started from here would inherit them and keep them open.
        os.set_inheritable(descriptor, False)
    if not data:
        return None
    try:
        message = json.loads(data)
        if not isinstance(message, dict):
            raise ValueError(f"message {message!r}, expected an object")
    except ValueError:
        for unused in descriptors:
            os.close(unused)
        raise
    return message, descriptors
