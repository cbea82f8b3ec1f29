"""Moves bytes from one socket to another within the kernel (`splice(2)`), without copying them.

For large data that no policy reads, such as most of a fetched megabyte, this costs less than half of reading
and writing. It works only for plain connections on Linux; otherwise the caller reads and writes as usual.
"""

import asyncio
import fcntl
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

WORTHWHILE = 256 * 1024
"""Bytes from which a splice is cheaper than reading, where it has to be prepared."""
WORTHWHILE_AGAIN = 32 * 1024
"""The same for a splice that is kept."""
_PIPE_BYTES = 1024 * 1024
MAX_PIPES = 24
"""Splices at once; each needs four descriptors of those kept back. Others are read and written as usual."""
_SELDOM_BYTES = 512 * 1024
"""Bytes of the source that wake the loop while as many are still to be moved."""
_FLAGS = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)

_Pipe = tuple[int, int]


class Pipes:
    """The pipes of one worker; a splice needs one, and a used one is kept for the next."""

    def __init__(self) -> None:
        self._idle: list[_Pipe] = []
        self._used = 0
        self.kept: dict[Splice, Callable[[], None]] = {}
        """Splices that have nothing to move now, the one that waits longest first, and how to end each."""

    def take(self) -> _Pipe | None:
        """An empty pipe; None if there are too many in use, or no descriptors."""
        if self._used >= MAX_PIPES:
            if not self.kept:
                return None
            self.kept[next(iter(self.kept))]()
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
    """Moves a known number of bytes from one socket to another, once or several times.

    :param loop: the running event loop.
    :param pipes: owner of the pipe.
    :param pipe: an empty one, which is given back at the end.
    :param source: what is read from; paused by the caller for as long as this is open.
    :param target: what is written to; written nowhere else while bytes are moved.
    :param on_moved: called with the splice when all is moved, the source has ended, or either has failed; in
        the last two cases it is closed.
    :raises OSError: if there are no descriptors.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipes: Pipes,
        pipe: _Pipe,
        source: asyncio.Transport,
        target: asyncio.Transport,
        on_moved: Callable[["Splice"], None],
    ) -> None:
        self._loop = loop
        self._pipes = pipes
        self._from_pipe, self._to_pipe = self._pipe = pipe
        self._on_moved = on_moved
        self._on_readable: Callable[[], None] | None = None
        """What reads the source while no bytes are moved."""
        self._unsent = target.get_write_buffer_size
        self._left = self._in_pipe = 0
        self.moved = 0
        """Bytes moved to the target since `move`."""
        self.last_ns = 0
        """When any were moved last; 0 if none are to be moved now."""
        self.is_open = True
        self._is_watching = self._is_held_up = False
        # An event loop watches each descriptor for one purpose, and these are watched by their transports.
        self._socket: socket.socket = source.get_extra_info("socket").dup()
        self._source = self._socket.fileno()
        self._wakes_from = 1
        """Bytes from which the source counts as readable."""
        try:
            self._target = os.dup(target.get_extra_info("socket").fileno())
        except OSError:
            self._socket.close()
            raise

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in the pipe."""
        return self._in_pipe == 0

    @property
    def is_held_up(self) -> bool:
        """Whether the target has to take bytes before more are read."""
        return self._is_held_up

    def move(self, count: int) -> None:
        """Move bytes, once the target has sent what was written to it before.

        :param count: how many; at least one.
        """
        self._pipes.kept.pop(self, None)
        self._left, self.moved = count, 0
        self.last_ns = monotonic_ns()
        if self._unsent():
            self._hold_up()
            return
        self._watch()
        self._readable()

    def keep(self, on_readable: Callable[[], None], release: Callable[[], None]) -> None:
        """Stay ready for the next bytes.

        :param on_readable: called when the source can be read and nothing is moved.
        :param release: called when something else needs the pipe; it has to close this.
        """
        self._on_readable = on_readable
        self._pipes.kept[self] = release
        self._watch()

    def read(self, count: int) -> bytes | None:
        """Read a few bytes of the source.

        :return: empty at its end or if it failed; None if there are none now.
        """
        try:
            return os.read(self._source, count)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._loop.add_reader(self._source, self._readable)

    def _hold_up(self) -> None:
        self._is_held_up = True
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_reader(self._source)
        self._loop.add_writer(self._target, self._writable)

    def _writable(self) -> None:
        if self._unsent():
            return
        self._is_held_up = False
        self._loop.remove_writer(self._target)
        self._watch()
        if self._in_pipe:
            self._drain()

    def _readable(self) -> None:
        if not self.last_ns:
            if self._on_readable is not None:
                self._on_readable()
            return
        try:
            # No byte more: what follows is the next frame, which policies have to read.
            count = os.splice(self._source, self._to_pipe, min(self._left, _PIPE_BYTES), flags=_FLAGS)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        self._left -= count
        self._in_pipe = count
        self._drain()

    def _drain(self) -> None:
        while self._in_pipe:
            try:
                count = os.splice(self._from_pipe, self._target, self._in_pipe, flags=_FLAGS)
            except BlockingIOError:
                self._hold_up()
                return
            except OSError:
                self.close()
                return
            self._in_pipe -= count
            self.moved += count
            self.last_ns = monotonic_ns()
        if self._left == 0:
            self._wake_from(1)
            self._end()
        elif self._left < self._wakes_from or self._wakes_from == 1:
            self._wake_from(min(self._left, _SELDOM_BYTES))

    def _wake_from(self, count: int) -> None:
        """Be woken once so many bytes can be read, at the end, or where the kernel has no room for more."""
        if count != self._wakes_from:
            self._wakes_from = count
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def _end(self) -> None:
        if self.last_ns:
            self.last_ns = 0
            self._on_moved(self)

    def close(self) -> None:
        """Stop, even if bytes are left; idempotent."""
        if not self.is_open:
            return
        self.is_open = False
        self._pipes.kept.pop(self, None)
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        self._wake_from(1)
        self._socket.close()
        os.close(self._target)
        self._pipes.give(self._pipe, is_empty=self.is_empty)
        self._end()


def ready(
    loop: asyncio.AbstractEventLoop,
    pipes: Pipes,
    source: asyncio.Transport,
    target: asyncio.Transport,
    on_moved: Callable[[Splice], None],
) -> Splice | None:
    """A splice between the sockets of two transports; None if there can be none now."""
    pipe = pipes.take() if hasattr(os, "splice") else None
    if pipe is None:
        return None
    try:
        return Splice(loop, pipes, pipe, source, target, on_moved)
    except OSError:  # no descriptors
        pipes.give(pipe, is_empty=True)
        return None
