"""One session between a client and a broker that are made up, under the rules of the gateway's relay.

Bytes come as the event loop gives them; commands are carried out in their order; what is asked is answered in
a later turn; a client that is paused is not read from; behind a Close nothing comes and nothing is done.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Close,
    Command,
    Dial,
    NextTurn,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)

LIMIT_NS = 5_000_000
"""CPU time for which one turn may hold the loop."""
THREAD_NS_PER_BYTE = 20_000
"""CPU time that a thread may spend on each byte of a request, besides `LIMIT_NS`.

To unpack what is packed as tightly as can be, a thousandfold, takes a fifth of that.
"""
_HELD_PER_BYTE = 64
_HELD_AT_LEAST = 256 * 1024
"""Most that `held_bytes` may be: this base, plus `_HELD_PER_BYTE` for each received byte, for requests in
flight."""
_BACKLOG = 1024 * 1024
"""Bytes that wait for a paused client; then it is taken to be a client that stops."""


class FoundError(Exception):
    """A rule is broken; the message says which."""


class Ends(Protocol):
    """A client and a broker of a protocol, who check what reaches them."""

    @property
    def session(self) -> BaseSession:
        """What stands between them."""

    @property
    def dials(self) -> bool:
        """Whether the session itself says when to connect to the broker."""

    def client_says(self) -> list[bytes]:
        """The next frames of the client; at least one."""

    def client_sent(self, frames: list[bytes], damaged: bool) -> None:
        """The frames that it sent; `damaged` if a mutator changed them."""

    def broker_says(self) -> list[bytes]:
        """Answers to what the broker has heard, or something of its own; may be nothing."""

    def broker_sent(self, frames: list[bytes], damaged: bool) -> None:
        """The frames that it sent; `damaged` if a mutator changed them."""

    def broker_hears(self, data: bytes) -> None:
        """Bytes that the session sent upstream.

        :raises FoundError: if they are out of order.
        """

    def client_hears(self, data: bytes) -> None:
        """Bytes that the session sent to the client.

        :raises FoundError: if they are out of order.
        """

    def in_thread(self, question: object) -> int:
        """Bytes of the request that a thread works on to answer a question; 0 if none does."""

    def answer(self, question: object, now_ns: int) -> object:
        """What the front says to a question of the session's."""


class Slow(NamedTuple):
    """Work that took longer than it may."""

    took_ns: int
    what: str
    bytes_in_thread: int
    """0 for a turn of the event loop."""


def limit_ns(bytes_in_thread: int) -> int:
    """CPU time that a turn may take, or a thread for a request of so many bytes."""
    return LIMIT_NS + THREAD_NS_PER_BYTE * bytes_in_thread


class Meter:
    """CPU time of turns, and of what threads do."""

    def __init__(self) -> None:
        self.turns = 0
        """Turns, and pieces of work in threads."""
        self.longest_ns = 0
        """The longest turn."""
        self.thread_ns = self.thread_bytes = 0
        """What threads did, and the bytes of the requests that they did it for."""
        self.slow: dict[int, Slow] = {}
        """What was over its limit, by its number."""
        self.watched: dict[int, int] = {}
        """CPU time of what is measured again, by its number."""
        self.last = ""
        """The turn at hand."""

    def turn(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Have the session do one thing, and measure it."""
        result, took_ns = self._measured(what, 0, call, arguments)
        self.longest_ns = max(self.longest_ns, took_ns)
        return result

    def in_thread(self, what: str, nbytes: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """Do what the gateway does in a thread for a request of so many bytes, and measure it."""
        result, took_ns = self._measured(what, nbytes, call, arguments)
        self.thread_ns += took_ns
        self.thread_bytes += nbytes
        return result

    def _measured(
        self, what: str, nbytes: int, call: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[Any, int]:
        self.last = what
        self.turns += 1
        began_ns = time.thread_time_ns()
        result = call(*arguments)
        took_ns = time.thread_time_ns() - began_ns
        if took_ns > limit_ns(nbytes):
            self.slow[self.turns] = Slow(took_ns, what, nbytes)
        if self.turns in self.watched:
            self.watched[self.turns] = took_ns
        return result, took_ns


class Link:
    """One connection.

    :param ends: its two peers, with the session.
    :param meter: measures all connections of a run.
    """

    def __init__(self, ends: Ends, meter: Meter) -> None:
        self.ends = ends
        self.session = ends.session
        self.is_closed = False
        self.closing: Close | None = None
        self.wake_ns: int | None = None
        self.questions: deque[object] = deque()
        self.is_paused = self.is_ending = False
        self.received = 0
        """Bytes of both sides."""
        self.has_broker = not ends.dials
        self._is_dialling = False
        self.meter = meter
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0

    @property
    def is_read(self) -> bool:
        """Whether the gateway reads from the client now."""
        return not (self.is_paused or self.is_ending or self.questions or self._is_dialling)

    def client_sends(self, data: bytes, now_ns: int, unread: bool = False) -> None:
        """One read from the client; `unread` if the kernel moves what may pass unread, in pauses too."""
        while unread and not (self.is_closed or self._backlog):
            skipped = min(self.session.unread_request_bytes, len(data))
            if not skipped:
                break
            self.received += skipped
            self.ends.broker_hears(data[:skipped])
            passed = self.session.request_passed
            self._do(f"{skipped} bytes of a request unread", now_ns, passed, skipped, now_ns)
            data = data[skipped:]
        if self.is_closed or not data:
            return
        if self._backlog or not self.is_read:
            if self._backlog_bytes < _BACKLOG:
                self._backlog.append(data)
                self._backlog_bytes += len(data)
            return
        self._receive(data, now_ns)

    def _receive(self, data: bytes, now_ns: int) -> None:
        self.received += len(data)
        commands = self.meter.turn(
            f"{len(data)} bytes of the client", self.session.receive_client, data, now_ns
        )
        self._carry_out([ToUpstream(data)] if commands is PASS else commands, now_ns)

    def broker_sends(self, data: bytes, now_ns: int, unread: bool) -> None:
        """One read from the broker; `unread` if the kernel moves what may pass unread."""
        if self.is_closed or not self.has_broker:
            return
        skipped = min(getattr(self.session, "unread_bytes", 0), len(data)) if unread else 0
        self.received += len(data)
        if skipped:
            self.ends.client_hears(data[:skipped])
            passed: Any = self.session
            self._do(f"{skipped} bytes unread", now_ns, passed.passed, skipped, now_ns)
            data = data[skipped:]
        if data and not self.is_closed:
            commands = self.meter.turn(
                f"{len(data)} bytes of the broker", self.session.receive_upstream, data, now_ns
            )
            self._carry_out([ToClient(data)] if commands is PASS else commands, now_ns)

    def go_on(self, now_ns: int) -> bool:
        """Answer a question, or read what waited; False if there is neither."""
        if self.is_closed:
            return False
        if self.questions:
            question = self.questions.popleft()
            answer = self._answered(question, now_ns)
            what = f"the answer to {type(question).__name__}"
            self._do(what, now_ns, self.session.answered, question, answer, now_ns)
        elif self._is_dialling:
            self._is_dialling = False
            self.has_broker = True
            dialled: Any = self.session
            self._do("a broker", now_ns, dialled.dialled, now_ns)
        elif self._backlog and self.is_read:
            data = self._backlog.popleft()
            self._backlog_bytes -= len(data)
            self._receive(data, now_ns)
        else:
            return False
        return True

    def _answered(self, question: object, now_ns: int) -> object:
        if isinstance(question, NextTurn):
            return None
        if not (nbytes := self.ends.in_thread(question)):
            return self.ends.answer(question, now_ns)
        what = f"{type(question).__name__} of {nbytes} bytes in a thread"
        return self.meter.in_thread(what, nbytes, self.ends.answer, question, now_ns)

    def refuse_dialling(self, now_ns: int) -> bool:
        """Tell the session that no broker is there; False if it asked for none."""
        if not self._is_dialling:
            return False
        self._is_dialling = False
        dialled: Any = self.session
        self._do("no broker", now_ns, dialled.undialled, "refused", now_ns)
        return True

    def wake(self, now_ns: int, client_gone: bool = False) -> None:
        """The time that the session asked for has come."""
        self.wake_ns = None
        self._do("waking", now_ns, self.session.wake, now_ns, client_gone)

    def end(self, now_ns: int) -> None:
        """The gateway ends: it stops reading, unless a session still needs it."""
        self.is_ending = not getattr(self.session, "reads_while_ending", False)
        ending: Any = self.session
        self._do("ending", now_ns, ending.ending, now_ns)

    def hang_up(self, now_ns: int) -> None:
        """Both connections are gone.

        :raises FoundError: if anything is kept.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self.meter.turn("closing", self.session.closed, now_ns)
        if self.session.held_bytes:
            raise FoundError(f"{self.session.held_bytes} bytes are held by a connection that has ended")

    def _do(self, what: str, now_ns: int, call: Callable[..., Any], *arguments: Any) -> None:
        if not self.is_closed:
            self._carry_out(self.meter.turn(what, call, *arguments), now_ns)

    def _carry_out(self, commands: Sequence[Command], now_ns: int) -> None:
        if commands is PASS:
            raise FoundError("PASS where no bytes came")
        for command in commands:
            if self.closing is not None:
                raise FoundError(f"a command after {self.closing}: {command!r:.200}")
            if isinstance(command, ToUpstream):
                self.ends.broker_hears(bytes(command.data))
            elif isinstance(command, ToClient):
                self.ends.client_hears(bytes(command.data))
            else:
                self._obey(command)
        held = self.session.held_bytes
        if held < 0 or held > _HELD_AT_LEAST + _HELD_PER_BYTE * self.received:
            raise FoundError(f"{held} bytes are held, of {self.received} that came")
        if self.closing is not None:
            self.hang_up(now_ns)

    def _obey(self, command: Command) -> None:
        if isinstance(command, Close):
            self.closing = command
        elif isinstance(command, WakeAt):
            self.wake_ns = command.at_ns
        elif isinstance(command, Ask):
            self.questions.append(command.question)
        elif isinstance(command, PauseReading | ResumeReading):
            self.is_paused = isinstance(command, PauseReading)
        elif isinstance(command, Dial):
            self._is_dialling = True
        else:
            raise FoundError(f"unexpected command {command!r}")
