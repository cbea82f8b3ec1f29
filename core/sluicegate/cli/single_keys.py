"""Single keys of a terminal, without waiting for Enter."""

import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_keys() -> Iterator[bool]:
    """Read keys one by one for a block; False if standard input is no terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield True
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def next_key(seconds: float) -> str:
    """The next key; empty if none is pressed in time."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return sys.stdin.read(1) if ready else ""
