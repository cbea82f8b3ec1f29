"""Moves bytes from one socket to another within the kernel (`splice(2)`), without copying them.

For large data that no policy reads, such as most of a fetched megabyte, this costs less than half of reading
and writing. It works only for plain connections on Linux; otherwise the caller reads and writes as usual.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

WORTHWHILE = 256 * 1024
"""Bytes from which a splice is cheaper than reading."""
_FEW_BYTES = 4096
_PIPE_BYTES = 1024 * 1024
MAX_PIPES = 24
"""Splices at once; each needs four descriptors of those kept back. Others are read and written as usual."""
_FLAGS = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)

_Pipe = tuple[int, int]


class Pipes:
    """The pipes of one worker; a splice needs one, and a used one is kept for the next."""

    def __init__(self) -> None:
        self._idle: list[_Pipe] = []
        self._used = 0

    def take(self) -> _Pipe | None:
        """An empty pipe; None if there are too many in use, or no descriptors."""
        if self._used >= MAX_PIPES:
            return None
        if self._idle:
            pipe = self._idle.pop()
        else:
            try:
                pipe = os.pipe()
            except OSError:
                return None
            with suppress(OSError):  # users have a share of all pipes' memory; a small one does as well
                fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._used += 1
        return pipe

    def give(self, pipe: _Pipe, *, is_empty: bool) -> None:
        """Give a pipe back."""
        self._used -= 1
        if is_empty:
            self._idle.append(pipe)
        else:
            os.close(pipe[0])
            os.close(pipe[1])

    def close(self) -> None:
        """Close the unused pipes."""
        for pipe in self._idle:
            os.close(pipe[0])
            os.close(pipe[1])
        self._idle.clear()


class Splice:
    """Moves a known number of bytes from one socket to another.

    :param loop: the running event loop.
    :param pipe: an empty one, owned until the end.
    :param source: descriptor to read from, which is read nowhere else meanwhile.
    :param target: descriptor to write to, which is written nowhere else once `is_clear`.
    :param count: bytes to move.
    :param is_clear: whether everything that was sent to the target before has left this process.
    :param on_end: called with the splice when all is moved, the source has ended, or either has failed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipe: _Pipe,
        source: int,
        target: int,
        count: int,
        is_clear: Callable[[], bool],
        on_end: Callable[["Splice"], None],
    ) -> None:
        self._loop = loop
        self.pipe = pipe
        self._left = count
        self._is_clear = is_clear
        self._on_end = on_end
        self._in_pipe = 0
        self.moved = 0
        """Bytes moved to the target."""
        self.last_ns = monotonic_ns()
        """When any were moved last."""
        # An event loop watches each descriptor for one purpose, and these are watched by their transports.
        self._source = os.dup(source)
        try:
            self._target = os.dup(target)
        except OSError:
            os.close(self._source)
            raise
        self._is_open = True
        loop.add_writer(self._target, self._writable)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in the pipe."""
        return self._in_pipe == 0

    @property
    def is_held_up(self) -> bool:
        """Whether the target has to take bytes before more are read."""
        return self._in_pipe > 0 or self._is_clear is not _always

    def _writable(self) -> None:
        if not self._is_clear():
            return
        self._loop.remove_writer(self._target)
        self._is_clear = _always
        self._loop.add_reader(self._source, self._readable)
        self._drain()

    def _readable(self) -> None:
        try:
            # No byte more: what follows is the next frame, which policies have to read.
            count = os.splice(self._source, self.pipe[1], min(self._left, _PIPE_BYTES), flags=_FLAGS)
        except BlockingIOError:
            return
        except OSError:
            self.end()
            return
        if count == 0:
            self.end()
            return
        self._left -= count
        self._in_pipe += count
        self.last_ns = monotonic_ns()
        self._drain()

    def _drain(self) -> None:
        while self._in_pipe:
            try:
                count = os.splice(self.pipe[0], self._target, self._in_pipe, flags=_FLAGS)
            except BlockingIOError:
                self._loop.remove_reader(self._source)
                self._loop.add_writer(self._target, self._writable)
                return
            except OSError:
                self.end()
                return
            self._in_pipe -= count
            self.moved += count
            self.last_ns = monotonic_ns()
        if self._left == 0:
            self.end()

    def end(self) -> None:
        """Stop, even if bytes are left; idempotent."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        os.close(self._source)
        os.close(self._target)
        self._on_end(self)


def begin(
    loop: asyncio.AbstractEventLoop,
    pipes: Pipes,
    source: asyncio.Transport,
    target: asyncio.Transport,
    count: int,
    on_end: Callable[[Splice], None],
) -> Splice | None:
    """Move bytes between the sockets of two transports, once the target has sent what was written to it.

    :return: None if it cannot be done now; else the source is paused, and the callback for the end resumes
        it and gives the pipe back.
    """
    pipe = pipes.take() if hasattr(os, "splice") else None
    if pipe is None:
        return None
    reading, writing = (transport.get_extra_info("socket").fileno() for transport in (source, target))
    try:
        splice = Splice(
            loop, pipe, reading, writing, count, lambda: not target.get_write_buffer_size(), on_end
        )
    except OSError:  # no descriptors
        pipes.give(pipe, is_empty=True)
        return None
    source.pause_reading()
    return splice


def read_some(source: asyncio.Transport) -> bytes:
    """A few bytes of a transport that is paused; empty if there are none now."""
    try:
        return os.read(source.get_extra_info("socket").fileno(), _FEW_BYTES)
    except OSError:  # it would block; or the transport itself is to find out what is wrong
        return b""


def _always() -> bool:
    return True
