"""The beginning of a connection: the client's preface, and its bytes until its broker is connected."""

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


class Opening:
    """What a client sends before its frames may pass.

    :param shared: the front's state.
    :param addresses: as for `GrpcSession`, as are the others.
    """

    __slots__ = (
        "_at",
        "_block",
        "_early",
        "_preface",
        "_shared",
        "_stand_ins",
        "addresses",
        "began_ns",
        "is_stood_in",
        "routes",
        "waits_for_broker",
    )

    def __init__(
        self, shared: Shared, addresses: tuple[Address, ...], stand_ins: tuple[Address, ...], *, routes: bool
    ) -> None:
        self._shared = shared
        self.addresses = addresses
        """Brokers to connect to."""
        self._stand_ins = stand_ins
        self.routes = routes
        """Whether the first request may name the broker."""
        self._preface = b""
        self.began_ns = 0
        """When the preface began to come."""
        self._early = Pieces(shared.services.budget)
        """What comes behind the preface."""
        self._at = 0
        self._block = b""
        self.waits_for_broker = False
        """True while the broker is being connected."""
        self.is_stood_in = False
        """True if another broker answers in place of the one that was asked for."""

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept."""
        return self._early.size

    @property
    def frame_began_ns(self) -> int:
        """When the preface began, while it is incomplete; else 0."""
        return 0 if self.has_preface else self.began_ns

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
            self.began_ns = self.began_ns or now_ns
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
        if self._early.size > _MOST:
            raise WireError(
                ErrorCode.ENHANCE_YOUR_CALM, ConnectionClose.EARLY_BYTES_OVER_LIMIT, f"over {_MOST} bytes"
            )

    def take(self) -> bytes:
        """Take all buffered bytes."""
        return self._early.all()

    def stands_in(self) -> None:
        """Another broker answers in place of the one that was asked for."""
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
            broker = headers.get(self._shared.methods.route_header, "")
            self.addresses = (self._shared.route(broker) if broker else None) or self.addresses
        self.waits_for_broker = True
        return Dial(self.addresses + self._stand_ins, in_order=bool(self._stand_ins))

    def _first_request(self) -> dict[str, str] | None:
        """The headers of the first request; None if it has not come."""
        data = self._early.joined()
        for kind, flags, _, at, stop in whole_frames(data, self._at):
            if kind in (HEADERS, CONTINUATION):
                begin, end = unpadded(data, at, stop, flags if kind == HEADERS else 0)
                self._block += data[begin:end]
                if flags & END_HEADERS:
                    return dict(reversed(read_alone(self._block, self._shared.limits.header_list_bytes)))
            self._at = stop
        return None
