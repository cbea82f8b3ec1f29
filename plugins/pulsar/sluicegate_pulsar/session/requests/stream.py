"""One direction of a connection, split into frames: unpoliced runs pass as the same bytes."""

from collections.abc import Callable
from struct import Struct

from sluicegate.broker import Buffer, Command
from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import Pieces
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import any_command_type, short_head
from sluicegate_pulsar.codec.lists import check_lists
from sluicegate_pulsar.session.requests.connection import Handler

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
_ANY = 2**62
_SEND = bytes([8, pb.BaseCommand.Type.SEND])
"""What a command that carries a message begins with: its type is the first field that clients write."""
_SMALL = 16_384
"""Bytes of a client's command up to which nothing in it can take long."""
_TLS_HANDSHAKE = b"\x16\x03"
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE")


class Stream:
    """Frames of one direction, and the start of a partial one.

    :param budget: bytes that all sessions may hold together.
    :param max_frame_bytes: of the largest frame that is accepted.
    :param parts: bytes that handlers send in this direction (`Connection.up` or `Connection.down`).
    :param send: makes the command that sends bytes in this direction.
    """

    __slots__ = (
        "_max_frame_bytes",
        "_need",
        "_parts",
        "_rest",
        "_send",
        "began_ns",
        "checks_lists",
        "default",
        "handlers",
        "is_stopped",
        "max_command_bytes",
        "on_many",
        "work",
    )

    def __init__(
        self, budget: Budget, max_frame_bytes: int, parts: list[Buffer], send: Callable[[Buffer], Command]
    ) -> None:
        self._rest = Pieces(budget)
        self._max_frame_bytes = max_frame_bytes
        self._parts = parts
        self._send = send
        self._need = 0
        self.handlers: dict[int, Handler] = {}
        """Handlers by type of command."""
        self.default: Handler | None = None
        """Handler of all other commands; None if they pass."""
        self.max_command_bytes = max_frame_bytes
        """Of the largest command, and of the largest frame without a message."""
        self.work = SEND_WORK
        """Work of a frame with a handler, in units of a frame without one."""
        self.checks_lists = False
        """Whether commands with long lists are refused."""
        self.began_ns = 0
        """When the first byte of the current partial frame arrived."""
        self.is_stopped = False
        """True while frames are kept and not walked."""
        self.on_many: Callable[[], None] | None = None
        """Called where more frames arrived at once than are handled in one turn of the event loop; it stops
        the stream. None for a stream that is never stopped."""

    @property
    def held_bytes(self) -> int:
        """Bytes buffered until a frame is complete, or until the stream resumes."""
        return self._rest.size

    def walk(self, data: bytes, now_ns: int, out: list[Command]) -> None:
        """Forward what passes, and give the rest to the handlers.

        :param data: the next bytes; may be empty to resume after a stop.
        :raises ProtocolError: if these bytes are not Pulsar.
        :raises NoRoomError: if too much is held already.
        """
        if self._rest.size or self.is_stopped:
            if data:
                self._rest.keep(data)
            if self._rest.size < self._need or self.is_stopped:
                return
            data = self._rest.all()
        at = self._frames(data, now_ns, out)
        if at < len(data):
            self._rest.keep(data[at:] if at else data)
            self._need = _need(data, at)
            self.began_ns = now_ns

    def _frames(  # noqa: C901 - one loop
        self, data: bytes, now_ns: int, out: list[Command]
    ) -> int:
        """Walk the whole frames; `run` is where the bytes that pass begin. Returns where the rest begins."""
        handlers, default, send = self.handlers, self.default, self._send
        largest = min(self.max_command_bytes, _SMALL) if self.checks_lists else self.max_command_bytes
        left, work = (WORK_PER_TURN if self.on_many is not None else _ANY), self.work - 1
        run = at = 0
        end = len(data)
        try:
            while end - at >= _HEAD:
                if left <= 0 and self.on_many is not None:
                    self.on_many()
                    break
                left -= 1
                size, kind = short_head(data, at)
                if not _MIN_SIZE <= size <= largest:
                    self._check_large(data, at, size)
                stop = at + 4 + size
                if stop > end:
                    break
                if not kind:
                    kind = any_command_type(data, at)
                    left -= _FIELDS_WORK + min(_read_size(data, at + 4)[0], _FIELDS_BYTES)
                handler = handlers.get(kind, default)
                if handler is not None:
                    left -= work
                    if not handler(data, at, stop, now_ns):
                        if at > run:
                            out.append(send(memoryview(data)[run:at]))
                        run = stop
                        self.flush(out)
                at = stop
                if self.is_stopped:
                    break
        finally:  # what passed before a malformed frame is already decided and counted
            if at > run:
                out.append(send(data if run == 0 and at == end else memoryview(data)[run:at]))
        return at

    def _check_large(self, data: bytes, at: int, size: int) -> None:
        """Refuse a frame that is too large for a command, or whose lists are too long.

        :raises ProtocolError: if it may not be so large.
        """
        if not _MIN_SIZE <= size <= self._max_frame_bytes:
            raise _bad_size(data, at, size)
        if size > self.max_command_bytes:
            _check_command(data, at, self.max_command_bytes)
        if self.checks_lists and at + 4 + size <= len(data):
            check_lists(data, at, at + 4 + size)

    def flush(self, out: list[Command]) -> None:
        """Send what handlers have left."""
        if self._parts:
            out.extend(map(self._send, self._parts))
            self._parts.clear()

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
