"""Free ports on loopback, for servers that only live for a moment.

A port stays free until the program that asked for it listens there, which takes a broker seconds. So no port
is given twice in a process, and programs that run side by side are given ranges of their own.
"""

import os
import socket
from contextlib import ExitStack
from random import SystemRandom

RANGE = "SLUICEGATE_PORTS"
"""Environment variable with the range to take ports from, such as `12000-14000`."""
_FIRST, _LAST = 12_000, 32_000
"""Below what Linux gives to outgoing connections: with one of those ports, a client that tries to reach a
server that is down could connect to itself."""
_ATTEMPTS = 1_000

_chance = SystemRandom()
_given: set[int] = set()


def port_range() -> tuple[int, int]:
    """The first port to take, and the one after the last.

    :raises ValueError: if the environment names no range.
    """
    named = os.environ.get(RANGE)
    if not named:
        return _FIRST, _LAST
    first, separator, last = named.partition("-")
    if not (separator and first.isdecimal() and last.isdecimal() and 1 <= int(first) < int(last) <= 65_536):
        raise ValueError(f"{RANGE}={named!r}: expected two ports such as 12000-14000")
    return int(first), int(last)


def free_ports(count: int) -> int:
    """Find neighbouring ports that are free on 127.0.0.1 at this moment and were not given before.

    :param count: how many.
    :return: the lowest of them.
    :raises OSError: if none were found.
    """
    first, last = port_range()
    for attempt in range(_ATTEMPTS):
        lowest = first + _chance.randrange(max(1, last - first - count))
        wanted = range(lowest, lowest + count)
        if attempt == _ATTEMPTS // 2:
            _given.clear()  # most of the range was given once
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
    raise OSError(f"no {count} neighbouring free ports between {first} and {last}: close some programs")
