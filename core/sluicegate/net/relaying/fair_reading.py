"""Reading that shares the event loop with all other connections.

A cheap read goes to the session at once. An expensive one is cut into slices that alternate with those of
other connections (`turns`), so a client with one small request waits for a slice of others' work, not for all
of it. How many bytes take little is learned from each connection, for each direction: 64 KiB of a batch pass
in a few microseconds, 500 bytes of tiny requests take a millisecond.

What reading waits for is a set of reasons, kept as bits, so that pausing twice or resuming what was not
paused does no harm.
"""

import asyncio
from abc import abstractmethod
from time import monotonic_ns, thread_time_ns
from typing import Final

from sluicegate.net.relaying.turns import SLICE_NS, Turns

TURN: Final = 64
"""A reason to pause: what was read is being worked on in pieces, or waits for its turn."""
CHEAP_NS: Final = 100_000
"""Reads that take no longer are processed at once, even for a hundred connections in one turn of the loop."""
UNTIMED_BYTES: Final = 2048
"""Unchanged reads up to this size are not timed: they cost next to nothing."""
_LEAST, _FIRST, _MOST = 512, 1024, 64 * 1024
"""Bytes that are processed at once: at least, on a new connection, and at most."""
_PIECE: Final = SLICE_NS // CHEAP_NS * 4 // 5
"""Size of a piece relative to a cheap read: a turn lasts a slice, and each cut has a cost."""


class PacedReading(asyncio.Protocol):
    """One end's reading: pauses, bytes that are kept back, and turns for large reads.

    :param turns: shared by all connections.
    :param pauses: reasons not to read from the beginning.
    """

    __slots__ = (
        "_cheap_bytes",
        "_is_surprised",
        "_pauses",
        "_pending",
        "_pending_bytes",
        "_transport",
        "_turns",
        "closing_ns",
    )

    def __init__(self, turns: Turns, pauses: int = 0) -> None:
        self.closing_ns = 0
        """When closing began; 0 while the connection is in use."""
        self._turns = turns
        self._transport: asyncio.Transport | None = None
        self._pauses = pauses
        self._pending: list[bytes] | None = None
        self._pending_bytes = 0
        self._cheap_bytes = _FIRST
        """Reads up to this size should take no longer than `CHEAP_NS`."""
        self._is_surprised = False
        """True after a large read took longer than expected."""

    def pause(self, reason: int) -> None:
        """Stop reading, for one more reason."""
        if not self._pauses:
            self._pauses = reason
            self.hold_back_reading()
        self._pauses |= reason

    def resume(self, reason: int) -> None:
        """Remove one reason to pause; reading resumes when none is left."""
        if not self._pauses & reason:
            return
        self._pauses &= ~reason
        transport = self._transport
        if self._pauses or transport is None or not self._may_read() or self._is_ending(transport):
            return
        transport.resume_reading()

    def is_only_paused_for(self, reason: int) -> bool:
        """Whether there is no other reason to pause."""
        return self._pauses == reason

    def hold_back_reading(self) -> None:
        """Apply the reasons to a transport that has not been paused for them."""
        transport = self._transport
        if self._pauses and transport is not None and not self._is_ending(transport):
            transport.pause_reading()

    def _is_ending(self, transport: asyncio.Transport) -> bool:
        """Whether it is closing; uvloop's transports then raise, even before the loss is reported."""
        return bool(self.closing_ns) or transport.is_closing()

    def _may_read(self) -> bool:
        """Whether this end may still send bytes."""
        return True

    @property
    def unsent_bytes(self) -> int:
        """Bytes for this end that it has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def hang_up(self) -> None:
        """Close at once; queued bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    # -- pieces and turns ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def user(self) -> str:
        """Whose turns it takes: the principal, or the host of a client without one."""

    @abstractmethod
    def _hand_on(self, data: bytes, now_ns: int) -> None:
        """Pass bytes to the session and run its commands."""

    @abstractmethod
    def _is_stopped(self) -> bool:
        """Whether reading is stopped for another reason than a missing turn."""

    @abstractmethod
    def _handed_on(self, count: int) -> None:
        """A large read has been handed on to its end."""

    def _learn(self, count: int, spent_ns: int) -> None:
        """Record how long a number of bytes took."""
        cheap = self._cheap_bytes
        if spent_ns > CHEAP_NS or count >= cheap:
            fitting = count * CHEAP_NS // max(1, spent_ns)
            # Not all at once: a small read's time may be one in which the machine had no processor for it.
            self._cheap_bytes = max(_LEAST, cheap // 4, min(_MOST, 2 * cheap, fitting))

    def _pace(self, data: bytes) -> None:
        """Process a large read: at once as far as that does not delay others, then in turns."""
        turns, now_ns, count = self._turns, monotonic_ns(), len(data)
        may_begin = turns.may_begin(now_ns)
        if may_begin and count <= _PIECE * self._cheap_bytes:  # bulk: nothing to cut
            self._hand_on_bulk(data, now_ns)
            self._handed_on(count)
            return
        self._put_back(data)
        self._pauses |= TURN
        if not may_begin:
            self._await_turn()
            return
        spent_ns = self._take_turn()
        turns.ended(monotonic_ns(), spent_ns)

    def _hand_on_bulk(self, data: bytes, now_ns: int) -> None:
        """Hand on a large read that is expected to take less than a slice, and learn from it.

        The thread's own clock tells what it took, but costs a system call. So it is read only where the last
        such read took longer than expected, which may be as the machine had no processor for it.
        """
        count, turns = len(data), self._turns
        expected_ns = 2 * count * CHEAP_NS // self._cheap_bytes
        began_ns = thread_time_ns() if self._is_surprised else 0
        self._hand_on(data, now_ns)
        ended_ns = monotonic_ns()
        spent_ns = ended_ns - now_ns
        if self._is_surprised:
            spent_ns = thread_time_ns() - began_ns
            self._is_surprised = False
            self._learn(count, spent_ns)
        elif spent_ns <= expected_ns:
            self._learn(count, spent_ns)
        else:
            self._is_surprised = True
            spent_ns = expected_ns
        turns.ended(ended_ns, spent_ns)

    def _await_turn(self) -> None:
        self.hold_back_reading()
        self._turns.queue(self.user, self._take_turn)

    def _take_turn(self) -> int:
        """Hand on pieces of the buffered bytes for at most a slice; `TURN` stays set until all are handed on.

        :return: the CPU time that they took, ns.
        """
        if self._transport is None or self._is_ending(self._transport):
            return 0  # what is buffered is handed on when the end is reported, or was dropped
        data = self._taken_back()
        first_ns = used_ns = thread_time_ns()
        at, size = 0, len(data)
        while at < size and used_ns - first_ns < SLICE_NS and self._may_hand_on():
            piece = data[at : at + _PIECE * self._cheap_bytes]
            at += len(piece)
            began_ns = used_ns
            self._hand_on(piece, monotonic_ns())
            used_ns = thread_time_ns()
            self._learn(len(piece), used_ns - began_ns)
        if at < size and not self.closing_ns:
            self._put_back(data[at:])
            if self._may_hand_on():
                self._await_turn()
                return used_ns - first_ns
        self.resume(TURN)
        self.hold_back_reading()
        self._handed_on(size)
        return used_ns - first_ns

    def _may_hand_on(self) -> bool:
        return not (self._is_stopped() or self.closing_ns)

    def _hand_on_all(self) -> None:
        """Hand on the bytes that wait for a turn, because this end has disconnected and gets no turn."""
        if self._pauses & TURN and self._may_hand_on() and (data := self._taken_back()):
            self._hand_on(data, monotonic_ns())
        self._pauses &= ~TURN

    # -- bytes that are kept back -------------------------------------------------------------------

    def _put_back(self, data: bytes) -> None:
        if self._pending is None:
            self._pending = []
        self._pending.insert(0, data)
        self._pending_bytes += len(data)

    def _put_behind(self, data: bytes) -> None:
        if self._pending is None:
            self._pending = []
        self._pending.append(data)
        self._pending_bytes += len(data)

    def _taken_back(self) -> bytes:
        pending = self._pending or ()
        data = pending[0] if len(pending) == 1 else b"".join(pending)
        self._drop_pending()
        return data

    def _drop_pending(self) -> None:
        self._pending = None
        self._pending_bytes = 0
