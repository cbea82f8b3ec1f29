"""The beginning of a connection: the client's preface, and its bytes until its broker is connected."""

from dataclasses import dataclass, field

from sluicegate.broker import Dial
from sluicegate.model import ConnectionClose
from sluicegate.sessions.pieces import Pieces
from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.blocks import read_alone
from sluicegate_grpc.proxy.splice.frames import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PREFACE,
    ErrorCode,
    WireError,
    unpadded,
    whole_frames,
)
from sluicegate_grpc.proxy.splice.shared import Address, Shared

_MOST = 262_144
"""Bytes that a client may send before it asks for anything."""


@dataclass(slots=True, eq=False)
class Opening:
    """What a client sends before its frames may pass."""

    shared: Shared
    addresses: tuple[Address, ...]
    """Brokers to connect to; as for `GrpcSession`, as are the next two."""
    stand_ins: tuple[Address, ...]
    routes: bool
    waits_for_broker: bool = False
    """True while the broker is being connected."""
    is_stood_in: bool = False
    """True if another broker is connected than the one that was asked for."""
    _preface: bytes = b""
    _began_ns: int = 0
    _early: Pieces = field(init=False)
    """What comes behind the preface."""
    _block: bytes = b""
    _at: int = 0

    def __post_init__(self) -> None:
        self._early = Pieces(self.shared.services.budget)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are kept."""
        return self._early.size

    @property
    def frame_began_ns(self) -> int:
        """When the preface began, while it is incomplete; else 0."""
        return 0 if self.has_preface else self._began_ns

    @property
    def has_preface(self) -> bool:
        """True once the client is known to speak HTTP/2."""
        return len(self._preface) == len(PREFACE)

    def behind_preface(self, data: bytes, now_ns: int) -> bytes:
        """Take the preface, or more of it; returns what is behind it.

        :raises WireError: if it is not HTTP/2.
        """
        lacks = len(PREFACE) - len(self._preface)
        if lacks:
            self._began_ns = self._began_ns or now_ns
            self._preface += data[:lacks]
            if not PREFACE.startswith(self._preface):
                text = "not HTTP/2 with prior knowledge; does the client have to use TLS?"
                raise WireError(ErrorCode.PROTOCOL_ERROR, GrpcClose.NOT_HTTP2, text)
        return data[lacks:]

    def keep(self, data: bytes) -> None:
        """Buffer more bytes.

        :raises WireError: if it is too much.
        :raises NoRoomError: if there is no room for it.
        """
        self._early.keep(data)
        # Reading goes on until the broker is known, and then connected: neither is bound to come soon.
        if self._early.size > _MOST:
            raise WireError(
                ErrorCode.ENHANCE_YOUR_CALM, ConnectionClose.EARLY_BYTES_OVER_LIMIT, f"over {_MOST} bytes"
            )

    def take(self) -> bytes:
        """Take all buffered bytes."""
        return self._early.all()

    def stands_in(self) -> None:
        """Another broker is connected than the one that was asked for."""
        self.is_stood_in = True

    def dial(self) -> Dial | None:
        """Connect to the broker, once it is known which one; None until then, and later.

        :raises WireError: if the request that names it cannot be read.
        """
        if self.waits_for_broker:
            return None
        if self.routes:
            headers = self._first_request()
            if headers is None:
                return None
            broker = headers.get(self.shared.rules.methods.route_header, "")
            self.addresses = (self.shared.brokers.route(broker) if broker else None) or self.addresses
        self.waits_for_broker = True
        return Dial(self.addresses + self.stand_ins, in_order=bool(self.stand_ins))

    def _first_request(self) -> dict[str, str] | None:
        """The headers of the first request; None if it has not come."""
        data = self._early.joined()
        for kind, flags, _, at, stop in whole_frames(data, self._at):
            if kind in (HEADERS, CONTINUATION):
                begin, end = unpadded(data, at, stop, flags if kind == HEADERS else 0)
                self._block += data[begin:end]
                if flags & END_HEADERS:
                    return dict(reversed(read_alone(self._block, self.shared.limits.header_list_bytes)))
            self._at = stop
        return None
