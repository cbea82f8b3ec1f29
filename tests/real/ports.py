"""Ports for servers under test."""

import contextlib
import secrets
import socket

# Below the range that the kernel takes ports of outgoing connections from (32768 and up): in it, a client
# that reconnects while the broker is down could be given the broker's own port and talk to itself.
_FIRST, _LAST = 12_000, 32_000


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now, outside the range of outgoing connections."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            port = _FIRST + secrets.randbelow(_LAST - _FIRST)
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    return found


def free_run(count: int) -> int:
    """The first of `count` consecutive free ports, as a gate with a port for each node wants them."""
    for _ in range(1_000):
        first = _FIRST + secrets.randbelow(_LAST - _FIRST - count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise OSError(f"no {count} consecutive free ports between {_FIRST} and {_LAST}")
