"""Responses of the broker on one Kafka connection: split into frames, and put in order.

Rules of this file: no IO, no clock, no policy; the handler that expects a response knows what it means.
"""

from abc import abstractmethod
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from sluicegate.broker import PASS, BaseSession, Buffer, Close, Command, NextTurn, ToClient, ToUpstream
from sluicegate.sessions.pieces import ALL, NO_ROOM, NoRoomError, Pieces
from sluicegate.sessions.work import Running
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.events import KafkaClose
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.pending import Owed, correlation_id_of
from sluicegate_kafka.session.requests.working import Made
from sluicegate_kafka.session.shared.shared import Shared

_read_response = Struct(">ii").unpack_from
_MIN_RESPONSE = 4
_RESPONSE_HEAD = 8
RESPONSES_PER_TURN = 50
"""Responses that are read in one turn of the event loop: 35 us each where addresses are rewritten."""
_BYTES_SHIFT = 9
"""Bytes (as a power of two) that count as one more response: long lists are slow."""


def as_commands(
    send: type[ToUpstream] | type[ToClient], data: bytes, commands: Sequence[Command]
) -> Sequence[Command]:
    """Commands for bytes other than those just received."""
    return (send(data),) if commands is PASS else commands


def close_last(out: list[Command]) -> list[Command]:
    """The same commands, with the first Close at the end, so that everything else is sent before."""
    if len(out) > 1 and any(type(command) is Close for command in out):
        first = next(command for command in out if type(command) is Close)
        return [*(command for command in out if type(command) is not Close), first]
    return out


class _Reading(NamedTuple):
    """A response that is read in slices."""

    work: Running[Made]
    entry: Owed
    """Where it was expected."""
    frame: bytes
    """The response without its length."""
    whole: Buffer


class ResponseStream(BaseSession):
    """The broker-to-client direction of a connection; the session is the rest.

    :param shared: the front's state.
    :param connection: the client's connection.
    """

    __slots__ = (
        "_is_full",
        "_most_owed",
        "_partial_response",
        "_reading",
        "_shared",
        "_skip_upstream",
        "connection",
        "outstanding",
    )

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self.connection = connection
        self.outstanding = connection.outstanding
        """Responses that are owed to the client."""
        self._partial_response = Pieces(shared.budget)
        self._skip_upstream = 0
        self._reading: _Reading | None = None
        """While there is one, `_partial_response` holds it and the bytes that arrive after it."""
        self._most_owed = shared.max_requests_in_flight
        self._is_full = False
        """True while so many responses are owed that no further request is read."""

    @abstractmethod
    def _answers(self, now_ns: int) -> list[Command]:
        """Responses whose turn and time have come."""

    @abstractmethod
    def _resume(self, now_ns: int, out: list[Command]) -> None:
        """Resume waiting requests."""

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:  # noqa: C901 - hot
        """Bytes from the broker: forward what passes, in runs; collect responses that are needed whole."""
        if self._is_full:
            return self._drain(data, now_ns)
        if self._skip_upstream:
            return self._stream(data, now_ns)
        if self._partial_response.size:
            return self._collect(data, now_ns)
        # <hot> The way of nearly every response: it is its turn, and it passes unread.
        outstanding = self.outstanding
        queue = outstanding.queue
        at = 0
        end = len(data)
        while end - at >= _RESPONSE_HEAD and queue:
            length, correlation_id = _read_response(data, at)
            head = queue[0]
            if type(head) is tuple:
                if head[0] != correlation_id or head[1].plain_length != length:
                    break
            elif head != correlation_id or length < _MIN_RESPONSE:
                break
            queue.popleft()
            at += 4 + length
        if at > end:
            self._skip_upstream = at - end
            at = end
        if at == end and not outstanding.finished:
            return PASS
        out: list[Command] = []
        try:
            self._responses(data, at, now_ns, out)
        except ProtocolError as error:
            out.append(Close(KafkaClose.MALFORMED_RESPONSE, str(error)))
        except NoRoomError:
            out.append(Close(*NO_ROOM))
        return out

    def _drain(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Count a response while too many are owed; resume requests once half of them are answered."""
        self._is_full = False
        out = list(as_commands(ToClient, data, self.receive_upstream(data, now_ns)))
        self._is_full = True
        self._resume_if_drained(now_ns, out)
        return close_last(out)

    @property
    def _is_drained(self) -> bool:
        """True if few enough responses are owed to read further requests."""
        return len(self.outstanding) <= self._most_owed // 2

    def _resume_if_drained(self, now_ns: int, out: list[Command]) -> None:
        if self._is_full and self._is_drained:
            self._resume(now_ns, out)

    @property
    def unread_bytes(self) -> int:
        """How many of the broker's next bytes pass unread."""
        return self._skip_upstream

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """Count bytes that were sent to the client."""
        self._skip_upstream -= count
        out = self._answers(now_ns)
        self._resume_if_drained(now_ns, out)
        return close_last(out)

    def _stream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Continue a response that passes unread."""
        skipped = self._skip_upstream
        if len(data) < skipped or (len(data) == skipped and not self.outstanding.finished):
            self._skip_upstream -= len(data)
            return PASS
        self._skip_upstream = 0
        rest = data[skipped:]
        commands = as_commands(ToClient, rest, self.receive_upstream(rest, now_ns))
        return [ToClient(memoryview(data)[:skipped]), *commands]

    def _collect(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Continue a response that is needed whole."""
        try:
            whole = self._partial_response.add(data)
        except NoRoomError:
            return [Close(*NO_ROOM)]
        if whole is None:
            return []
        return as_commands(ToClient, whole, self.receive_upstream(whole, now_ns))

    def _responses(  # noqa: C901 - one loop
        self, data: bytes, at: int, now_ns: int, out: list[Command]
    ) -> None:
        """Walk the responses in `data` from `at`; `run` is where the bytes not yet forwarded begin."""
        outstanding = self.outstanding
        run = 0
        end = len(data)
        queue = outstanding.queue
        left = RESPONSES_PER_TURN
        while end - at >= _RESPONSE_HEAD and left > 0:
            length, correlation_id = _read_response(data, at)
            stop = at + 4 + length
            head = queue[0] if queue else None
            if head == correlation_id and length >= _MIN_RESPONSE:
                queue.popleft()
                if stop > end:
                    self._skip_upstream = stop - end
                at = min(stop, end)
                continue
            if stop > end:
                break
            left -= 1 + (length >> _BYTES_SHIFT)
            if type(head) is tuple and head[0] == correlation_id and head[1].passes(data[at + 4 : stop]):
                queue.popleft()
                at = stop
                continue
            if at > run:
                out.append(ToClient(memoryview(data)[run:at]))
            self._finish(data, at, stop, now_ns)
            if self._reading is not None:
                self._begin_reading(self._reading, data[stop:], now_ns, out)
                return
            out.extend(self._answers(now_ns))
            run = at = stop
        if at > run:
            out.append(ToClient(data if run == 0 and at == end else memoryview(data)[run:at]))
        if outstanding.finished:
            out.extend(self._answers(now_ns))
        if at < end:
            if left > 0:
                self._expect_rest(data[at:])
            else:
                self._rest(data[at:], now_ns, out)

    def _expect_rest(self, rest: bytes) -> None:
        """Keep the start of a response that is needed whole until the rest arrives."""
        need = 4 + _read_response(rest, 0)[0] if len(rest) >= _RESPONSE_HEAD else _RESPONSE_HEAD
        if need > self._shared.max_response_bytes:
            raise ProtocolError(f"response of {need!r} bytes from the broker is too large to read")
        self._partial_response.begin(rest, need)

    def _rest(self, rest: bytes, now_ns: int, out: list[Command]) -> None:
        """Keep the rest after many responses until other clients have had their turn."""
        self._partial_response.begin(rest, ALL)
        self.connection.questions.ask(NextTurn(), self._look_on)
        out.extend(self._answers(now_ns))

    def _look_on(self, now_ns: int, out: list[Command]) -> None:
        """Resume the responses that waited for their turn."""
        rest = self._partial_response.all()
        out.extend(as_commands(ToClient, rest, self.receive_upstream(rest, now_ns)))

    def _finish(self, data: bytes, start: int, stop: int, now_ns: int) -> None:
        """Put a complete response in place of its entry."""
        length, correlation_id = _read_response(data, start)
        if length < _MIN_RESPONSE:
            raise ProtocolError(f"response of length {length!r} from the broker")
        entry = self.outstanding.arrived()
        if entry is None or correlation_id_of(entry) != correlation_id:
            due = None if entry is None else correlation_id_of(entry)
            raise ProtocolError(f"response to {correlation_id!r} from the broker where {due!r} is due")
        whole = data if stop - start == len(data) else memoryview(data)[start:stop]
        if isinstance(entry, int):
            self.outstanding.replace(entry, whole)
            return
        handle = entry[1].handle if isinstance(entry, tuple) else entry.handle
        frame = data[start + 4 : stop]
        made = handle(frame, now_ns)
        if isinstance(made, Running):
            self._reading = _Reading(made, entry, frame, whole)
        else:
            self._place(entry, frame, whole, made)

    def _place(self, entry: Owed, frame: bytes, whole: Buffer, made: Made) -> None:
        self.outstanding.replace(entry, whole if made is frame else made)

    # -- responses that are read in slices ----------------------------------------------------------

    def _begin_reading(self, reading: _Reading, rest: bytes, now_ns: int, out: list[Command]) -> None:
        """Keep a response until its last slice is done, and the bytes after it."""
        self._partial_response.begin(reading.frame, ALL)
        if rest:
            self._partial_response.add(rest)
        self.connection.questions.ask(NextTurn(), self._read_on)
        out.extend(self._answers(now_ns))

    def _read_on(self, now_ns: int, out: list[Command]) -> None:
        """Do the next slice of a response; after the last one, resume with the bytes after it."""
        reading = self._reading
        if reading is None:
            return
        try:
            made = reading.work.go_on(now_ns)
        except ProtocolError as error:
            self._give_up_reading()
            out.append(Close(KafkaClose.MALFORMED_RESPONSE, str(error)))
            return
        if isinstance(made, Running):
            self.connection.questions.ask(NextTurn(), self._read_on)
            return
        self._reading = None
        rest = self._partial_response.behind_first()
        self._place(reading.entry, reading.frame, reading.whole, made)
        out.extend(self._answers(now_ns))
        if rest:
            out.extend(as_commands(ToClient, rest, self.receive_upstream(rest, now_ns)))

    def _give_up_reading(self) -> None:
        """Discard the rest of a response, and the bytes after it."""
        if self._reading is not None:
            self._reading.work.close(self._reading.work.now_ns)
            self._reading = None
