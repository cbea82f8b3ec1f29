"""One direction of a connection, split into frames: unpoliced runs pass as the same bytes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct

from sluicegate.broker import Buffer, Command
from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import Pieces
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import any_command_type, short_head
from sluicegate_pulsar.codec.lists import check_lists
from sluicegate_pulsar.session.requests.body import LARGE, Body
from sluicegate_pulsar.session.requests.handling import PASS, Handler
from sluicegate_pulsar.session.requests.reading_stops import Reading

_read_size = Struct(">I").unpack_from
_HEAD = 10
"""Total size, command size and the command's type: what must be there to choose a handler."""
_MIN_SIZE = 6
WORK_PER_TURN = 5_000
"""Frames without a handler, of some 0.4 us each, in one turn of the event loop."""
SEND_WORK = 5
"""The work of a client's frame with a handler, in units of a frame without one: a SEND takes 2 to 4 us."""
MESSAGE_WORK = 15
"""The same for a broker's frame: a message takes some 6 us."""
_FIELDS_WORK = 4
"""The same for a frame whose type is known only from all fields of its command, of 1.6 us and more."""
_FIELDS_BYTES = 500
"""Each byte of such a command is work too, up to so many: a field takes 0.6 us, and 32 are the most."""
_START_BYTES = 4096
"""Bytes in which that start is looked for: command, checksum, metadata."""
_SEND = bytes([8, pb.BaseCommand.Type.SEND])
"""What a command that carries a message begins with: its type is the first field that clients write."""
_SMALL = 16_384
"""Bytes of a client's command up to which nothing in it can take long."""
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a side may send."""

    max_frame_bytes: int
    """Of the largest frame that is accepted."""
    max_command_bytes: int
    """Of the largest command, and of the largest frame without a message."""
    checks_lists: bool
    """Whether commands with long lists are refused."""
    work: int
    """Work of a frame with a handler, in units of a frame without one."""


class Stream:
    """Frames of one direction, and the start of a partial one.

    :param budget: bytes that all sessions may hold together.
    :param bounds: of what may be sent in this direction.
    :param pending: what is sent besides, by handlers and work (`Connection.out`).
    :param send: makes the command that sends bytes in this direction.
    :param reading: frames are kept and not walked while it is stopped.
    :param give_way: called where more frames arrived at once than are handled in one turn of the event loop;
        it stops the reading.
    """

    __slots__ = (
        "_bounds",
        "_give_way",
        "_handling",
        "_largest",
        "_need",
        "_pending",
        "_reading",
        "_rest",
        "_send",
        "_work",
        "began_ns",
        "body",
    )

    def __init__(
        self,
        budget: Budget,
        bounds: Bounds,
        pending: list[Command],
        send: Callable[[Buffer], Command],
        reading: Reading,
        give_way: Callable[[], None],
    ) -> None:
        self._rest = Pieces(budget)
        self._bounds = bounds
        self._largest = (
            min(bounds.max_command_bytes, _SMALL) if bounds.checks_lists else bounds.max_command_bytes
        )
        """Bytes of a frame that needs no closer look."""
        self._work = bounds.work - 1
        self._pending = pending
        self._send = send
        self._reading = reading
        self._give_way = give_way
        self._need = 0
        self._handling: tuple[Mapping[int, Handler], Handler | None] = ({}, None)
        self.body = Body(send)
        self.began_ns = 0
        """When the first byte of the current partial frame arrived."""

    def handle(self, handlers: Mapping[int, Handler], default: Handler | None = None) -> None:
        """Have frames handled from here on.

        :param handlers: by type of command; its owner may change it.
        :param default: of all other commands; None if they pass.
        """
        self._handling = handlers, default

    @property
    def held_bytes(self) -> int:
        """Bytes buffered until a frame is complete, or until the reading goes on."""
        return self._rest.size

    @property
    def has_frames(self) -> bool:
        """Whether enough is buffered to go on."""
        return 0 < self._rest.size >= self._need

    def walk(self, data: bytes, now_ns: int, out: list[Command]) -> None:
        """Forward what passes, and give the rest to the handlers.

        :param data: the next bytes; may be empty to resume after a stop.
        :raises ProtocolError: if these bytes are not Pulsar.
        :raises NoRoomError: if too much is held already.
        """
        if self.body.unread and not (data := self.body.take(data, out)):
            return
        if self._rest.size or self._reading.stops:
            if data:
                self._rest.keep(data)
            if self._rest.size < self._need or self._reading.stops:
                return
            data = self._rest.all()
            self._need = 0
        at = self._frames(data, now_ns, out)
        if at < len(data):
            self._rest.keep(data[at:] if at else data)
            self._need = self._needed(data, at)
            self.began_ns = now_ns
        elif self.body.unread:
            self.body.begun(out[-1])
            self.began_ns = now_ns

    def _needed(self, data: bytes, at: int) -> int:
        """The number of bytes from `at` that are needed to proceed."""
        need = _need(data, at)
        if need > LARGE and self.body.is_looked_for and len(data) - at < _START_BYTES:
            return _START_BYTES
        return need

    def _frames(  # noqa: C901 - one loop
        self, data: bytes, now_ns: int, out: list[Command]
    ) -> int:
        """Walk the whole frames; `run` is where the bytes that pass begin. Returns where the rest begins."""
        (handlers, default), send, reading = self._handling, self._send, self._reading
        left, largest, work = WORK_PER_TURN, self._largest, self._work
        run = at = 0
        end = len(data)
        try:
            while end - at >= _HEAD:
                if left <= 0:
                    self._give_way()
                    break
                left -= 1
                size, kind = short_head(data, at)
                if not _MIN_SIZE <= size <= largest:
                    self._check_large(data, at, size)
                stop = at + 4 + size
                if stop > end:
                    if size > LARGE and kind == _SEND[1] and self.body.starts(data, at, stop, now_ns):
                        at = end
                    break
                if not kind:
                    kind = any_command_type(data, at)
                    left -= _FIELDS_WORK + min(_read_size(data, at + 4)[0], _FIELDS_BYTES)
                handler = handlers.get(kind, default)
                if handler is not None:
                    left -= work
                    commands = handler(data, at, stop, now_ns)
                    if commands is not PASS:
                        if at > run:
                            out.append(send(memoryview(data)[run:at]))
                        run = stop
                        self.flush(out)
                        out.extend(commands)
                at = stop
                if reading.stops:
                    break
        finally:  # what passed before a malformed frame is already decided and counted
            if at > run:
                out.append(send(data if run == 0 and at == end else memoryview(data)[run:at]))
        return at

    def _check_large(self, data: bytes, at: int, size: int) -> None:
        """Refuse a frame that is too large for a command, or whose lists are too long.

        :raises ProtocolError: if it may not be so large.
        """
        bounds = self._bounds
        if not _MIN_SIZE <= size <= bounds.max_frame_bytes:
            raise _bad_size(data, at, size)
        if size > bounds.max_command_bytes:
            _check_command(data, at, bounds.max_command_bytes)
        if bounds.checks_lists and at + 4 + size <= len(data):
            check_lists(data, at, at + 4 + size)

    def flush(self, out: list[Command]) -> None:
        """Send what is pending."""
        if self._pending:
            out.extend(self._pending)
            self._pending.clear()

    def drop(self) -> None:
        """Discard the buffered bytes."""
        self._rest.drop()


def _need(data: bytes, at: int) -> int:
    """The number of bytes from `at` that are needed to proceed."""
    return 4 + int(_read_size(data, at)[0]) if len(data) - at >= _HEAD else _HEAD


def _check_command(data: bytes, at: int, largest: int) -> None:
    """Refuse a large frame whose size is not that of a message.

    :raises ProtocolError: if it is for any other command, or if the command itself is large.
    """
    size = _read_size(data, at + 4)[0]
    if data[at + 8 : at + _HEAD] != _SEND or size > largest:
        whole = _read_size(data, at)[0]
        raise ProtocolError(
            f"a command of {size} bytes in a frame of {whole}, {largest} are the most without a message; "
            "raise max_command_bytes"
        )


def _bad_size(data: bytes, at: int, size: int) -> ProtocolError:
    start = data[at : at + 4]
    if start[:2] == _TLS_HANDSHAKE:
        return ProtocolError("a TLS hello on a plain listener")
    if start in _HTTP:
        return ProtocolError("an HTTP request; this is the listener for Pulsar's binary protocol")
    return ProtocolError(f"frame of {size} bytes")
