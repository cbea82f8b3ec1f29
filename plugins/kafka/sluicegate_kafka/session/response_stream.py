"""The broker's bytes of one connection: split into responses, each of which is put where it is owed.

Rules of this file: no IO, no clock, no policy; the handler that expects a response knows what it means.
"""

from functools import partial
from struct import Struct

from sluicegate.broker import Buffer, ToClient
from sluicegate.sessions.work import TURN, Running
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.events import KafkaClose
from sluicegate_kafka.session.requests.connection import Connection, Inflow
from sluicegate_kafka.session.requests.outcomes import Later, Made, Owed
from sluicegate_kafka.session.requests.pending import correlation_id_of
from sluicegate_kafka.session.shared.shared import Shared

read_response = Struct(">ii").unpack_from
"""Length and correlation id."""
MIN_RESPONSE = 4
RESPONSE_HEAD = 8
RESPONSES_PER_TURN = 50
"""Responses that are read in one turn of the event loop: 35 us each where addresses are rewritten."""
_BYTES_SHIFT = 9
"""Bytes (as a power of two) that count as one more response: long lists are slow."""


class ResponseStream:
    """The broker-to-client direction of a connection.

    :param shared: the front's state.
    :param connection: the client's connection.
    """

    __slots__ = ("_connection", "_outstanding", "_shared", "inflow")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._outstanding = connection.outstanding
        malformed = KafkaClose.MALFORMED_RESPONSE
        self.inflow = Inflow(connection, shared.budget, ToClient, self._responses, malformed)

    def _responses(self, data: bytes, at: int, now_ns: int) -> None:
        """Walk the responses in `data` from `at`; `run` is where the bytes not yet forwarded begin."""
        out, queue = self._connection.output.commands, self._outstanding.queue
        at = max(0, at)
        run = 0
        end = len(data)
        left = RESPONSES_PER_TURN
        while end - at >= RESPONSE_HEAD and left > 0:
            length, correlation_id = read_response(data, at)
            stop = at + 4 + length
            head = queue[0] if queue else None
            if head == correlation_id and length >= MIN_RESPONSE:
                queue.popleft()
                if stop > end:
                    self.inflow.passes(stop - end)
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
            run = at = stop
            if self.inflow.task is not None:
                break
        if at > run:
            out.append(ToClient(data if run == 0 and at == end else memoryview(data)[run:at]))
        if at < end:
            self._put_off(data[at:], now_ns, is_turn_over=left <= 0)

    def _put_off(self, rest: bytes, now_ns: int, *, is_turn_over: bool) -> None:
        """Keep bytes: work waits, the turn is over, or the frame is partial."""
        if self.inflow.task is not None:
            self.inflow.pieces.keep(rest)
            return
        if is_turn_over:
            self.inflow.pause(rest, TURN, now_ns)
            return
        need = 4 + read_response(rest, 0)[0] if len(rest) >= RESPONSE_HEAD else RESPONSE_HEAD
        if need > self._shared.limits.max_response_bytes:
            raise ProtocolError(f"response of {need!r} bytes from the broker is too large to read")
        self.inflow.pieces.begin(rest, need)

    def _finish(self, data: bytes, start: int, stop: int, now_ns: int) -> None:
        """Put a complete response where its entry is."""
        length, correlation_id = read_response(data, start)
        if length < MIN_RESPONSE:
            raise ProtocolError(f"response of length {length!r} from the broker")
        entry = self._outstanding.arrived()
        if entry is None or correlation_id_of(entry) != correlation_id:
            due = None if entry is None else correlation_id_of(entry)
            raise ProtocolError(f"response to {correlation_id!r} from the broker where {due!r} is due")
        frame = data[start + 4 : stop]
        whole = data if stop - start == len(data) else memoryview(data)[start:stop]
        if isinstance(entry, int):
            self._put(entry, frame, whole, frame, now_ns)
            return
        handle = entry[1].handle if isinstance(entry, tuple) else entry.handle
        done = partial(self._put, entry, frame, whole)
        made: Made | Later[Made] | Running[Made] = handle(frame, now_ns)
        if callable(made):
            made = self.inflow.begin(made, frame, done, now_ns)
        if not isinstance(made, Running):
            self._put(entry, frame, whole, made, now_ns)

    def _put(self, entry: Owed, frame: bytes, whole: Buffer, made: Made, now_ns: int) -> None:
        self._outstanding.replace(entry, whole if made is frame else made)
        # Now, so that the next response is at the head and may pass unread.
        self._connection.output.commands.extend(self._outstanding.release(now_ns))
