"""Messages between processes of one machine that carry descriptors of sockets (SCM_RIGHTS)."""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

_LARGEST = 64 * 1024
"""Bytes of one message."""
MOST = 200
"""Descriptors of one message; Linux takes 253."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends; each message arrives whole, and a closed end is noticed."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(
    channel: socket.socket, message: Mapping[str, object], sockets: Sequence[socket.socket] = ()
) -> None:
    """Send a message; the receiver gets descriptors of its own for the sockets.

    :param sockets: at most MOST.
    :raises OSError: if the other end is gone, or takes no more now (BlockingIOError).
    """
    data = json.dumps(message).encode()
    if sockets:
        socket.send_fds(channel, [data], [sent.fileno() for sent in sockets])
    else:
        channel.send(data)


def duplicate(bound: socket.socket) -> socket.socket:
    """Another descriptor of a socket that another process may use, too.

    `socket.dup` makes it blocking in both processes: the other's event loop would hang in `accept`.
    """
    return socket.socket(fileno=os.dup(bound.fileno()))


def receive(channel: socket.socket) -> tuple[Mapping[str, Any], list[socket.socket]] | None:
    """The next message and the sockets that came with it; None when the other end is closed.

    :raises OSError: if nothing has come (BlockingIOError, TimeoutError), or the other end broke off.
    :raises ValueError: if it is not a message; its sockets are closed.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, _LARGEST, MOST)
    for descriptor in descriptors:
        # Otherwise each worker started from here would inherit them and keep them open.
        os.set_inheritable(descriptor, False)
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    if not data:
        return None
    try:
        message = json.loads(data)
        if not isinstance(message, dict):
            raise ValueError(f"message {message!r}, expected an object")
    except ValueError:
        for unused in sockets:
            unused.close()
        raise
    return message, sockets
