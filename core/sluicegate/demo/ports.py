"""Free ports on loopback, for gates that only live for a moment."""

import random
import socket
from contextlib import ExitStack

_FIRST, _LAST = 20_000, 32_000
"""Below what Linux gives to outgoing connections."""
_ATTEMPTS = 200


def free_ports(count: int) -> int:
    """Find neighbouring ports that are free on 127.0.0.1 at this moment.

    :param count: how many.
    :return: the lowest of them.
    :raises OSError: if none were found.
    """
    for _ in range(_ATTEMPTS):
        first = random.randrange(_FIRST, _LAST - count)  # noqa: S311 - no secret
        with ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise OSError(f"no {count} neighbouring free ports between {_FIRST} and {_LAST}: close some programs")
