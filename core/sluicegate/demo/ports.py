"""Finds free ports on loopback for short-lived servers.

A broker takes seconds until it listens on its port. So a process never returns a port twice, and concurrent
programs get separate ranges.
"""

import os
import socket
from contextlib import ExitStack
from random import SystemRandom

RANGE = "SLUICEGATE_PORTS"
"""Environment variable with the range to take ports from, such as `12000-14000`."""
_FIRST, _LAST = 12_000, 32_000
"""Below Linux's ephemeral ports: on one of those, a client that tries to reach a stopped server could connect
to itself."""
_ATTEMPTS = 1_000

_chance = SystemRandom()
_given: set[int] = set()


def port_range() -> tuple[int, int]:
    """The range of ports as its first port and the one after the last.

    :raises ValueError: if the environment variable is malformed.
    """
    named = os.environ.get(RANGE)
    if not named:
        return _FIRST, _LAST
    first, separator, last = named.partition("-")
    if not (separator and first.isdecimal() and last.isdecimal() and 1 <= int(first) < int(last) <= 65_536):
        raise ValueError(f"{RANGE}={named!r}: expected two ports such as 12000-14000")
    return int(first), int(last)


def free_ports(count: int) -> int:
    """Find consecutive ports that are free on 127.0.0.1 and were not returned before.

    :param count: number of ports.
    :return: the lowest of them.
    :raises OSError: if none were found.
    """
    first, last = port_range()
    for attempt in range(_ATTEMPTS):
        lowest = first + _chance.randrange(max(1, last - first - count))
        wanted = range(lowest, lowest + count)
        if attempt == _ATTEMPTS // 2:
            _given.clear()  # most of the range has been used once
        if not _given.isdisjoint(wanted):
            continue
        with ExitStack() as held:
            try:
                for port in wanted:
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            _given.update(wanted)
            return lowest
    raise OSError(f"no {count} consecutive free ports between {first} and {last}: close some programs")
