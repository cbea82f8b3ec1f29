"""SETTINGS as they pass the gateway.

Header compression is stateless on both sides (SETTINGS_HEADER_TABLE_SIZE 0, RFC 7541 section 4.2): so a
request that is refused need not go to the broker, and the gateway's own answers change no header table.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.connection_limits import Limits
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import (
    ACK,
    HEAD,
    LEAST_MAX_FRAME,
    SETTINGS,
    ErrorCode,
    WireError,
    frame,
    malformed,
)

TABLE_SIZE = 1
MAX_STREAMS = 3
INITIAL_WINDOW = 4
MAX_FRAME = 5
MAX_HEADER_LIST = 6
_PASSED = frozenset({TABLE_SIZE, 2, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_HEADER_LIST})
"""SETTINGS hold between neighbours (RFC 9113 section 6.5): only those pass that the gateway keeps to on both
sides, with 2, SETTINGS_ENABLE_PUSH. With gRPC's 0xfe03, clients would send `-bin` metadata as raw bytes."""
_DEFAULTS = {
    TABLE_SIZE: 4_096,
    MAX_STREAMS: 2**32 - 1,
    MAX_FRAME: LEAST_MAX_FRAME,
    MAX_HEADER_LIST: 2**32 - 1,
}
_LARGEST_FRAME = 2**24 - 1
_MAX_UNACKNOWLEDGED = 1_000
_MAX_ENTRIES = 32
"""Of one frame: there are less than ten kinds."""
_ENTRY = Struct(">HI")


def entries(payload: bytes) -> Iterator[tuple[int, int]]:
    """Identifiers and values.

    :raises WireError: if it is cut off, has too many, or asks for an invalid frame size.
    """
    if len(payload) % _ENTRY.size:
        raise malformed(f"SETTINGS of {len(payload)} bytes", ErrorCode.FRAME_SIZE_ERROR)
    if len(payload) > _MAX_ENTRIES * _ENTRY.size:
        text = f"SETTINGS with over {_MAX_ENTRIES} entries"
        raise WireError(ErrorCode.ENHANCE_YOUR_CALM, GrpcClose.SETTINGS_FLOOD, text)
    for name, value in _ENTRY.iter_unpack(payload):
        if name == MAX_FRAME and not LEAST_MAX_FRAME <= value <= _LARGEST_FRAME:
            text = f"SETTINGS_MAX_FRAME_SIZE of {value} bytes"
            raise malformed(text)
        yield name, value


def shrinks_table(payload: bytes) -> bool:
    """Whether a peer asks for a table below the default size, and so expects an update."""
    return any(name == TABLE_SIZE and value < _DEFAULTS[TABLE_SIZE] for name, value in entries(payload))


def for_clients(limits: Limits) -> Mapping[int, int]:
    """Upper bounds of a broker's settings towards clients."""
    return {MAX_STREAMS: limits.max_streams, **for_brokers(limits)}


def for_brokers(limits: Limits) -> Mapping[int, int]:
    """Upper bounds of a client's settings towards the broker."""
    return {TABLE_SIZE: 0, MAX_FRAME: limits.frame_bytes, MAX_HEADER_LIST: limits.header_list_bytes}


def bounded(payload: bytes, most: Mapping[int, int], *, first: bool) -> bytes:
    """Those of the settings that pass, within bounds.

    :param most: by setting.
    :param first: True for a side's first settings, which also lower the defaults.
    """
    kept = [(name, min(value, most.get(name, value))) for name, value in entries(payload) if name in _PASSED]
    if first:
        said = {name for name, _ in kept}
        less = [(name, value) for name, value in most.items() if value < _DEFAULTS[name]]
        kept[:0] = [(name, value) for name, value in less if name not in said]
    return b"".join(_ENTRY.pack(name, value) for name, value in kept)


def greeting(limits: Limits) -> bytes:
    """The SETTINGS that the gateway sends before the broker's have arrived (RFC 9113 section 3.4)."""
    return frame(SETTINGS, 0, 0, bounded(b"", for_clients(limits), first=True))


@dataclass(slots=True, eq=False)
class PeerSettings:
    """The SETTINGS of one peer on their way to the other, within the gateway's bounds."""

    _frames: FrameStream
    """What the peer sends."""
    _most: Mapping[int, int]
    """Upper bounds of its settings."""
    _flood: Flood
    have_come: bool = False
    """True once its SETTINGS have come."""
    has_acknowledged: bool = False
    """True once it has acknowledged the other's: it uses no dynamic table from there on."""
    waits_for_update: bool = False
    """True if its decoder wants to be told that there is no table."""
    is_greeted: bool = False
    """True once the gateway has sent it a frame: SETTINGS came before it."""
    _discards_ack: bool = False
    """True if its next acknowledgement is for the gateway's own SETTINGS."""
    other: "PeerSettings" = field(init=False)
    unacknowledged: deque[bytes] = field(default_factory=deque)
    """Those of its SETTINGS that the other peer has not acknowledged."""

    def join(self, other: "PeerSettings") -> None:
        """Make two peers those of one connection."""
        self.other, other.other = other, self

    def greet(self, *, discards_ack: bool) -> None:
        """The gateway sends it the first frame.

        :param discards_ack: True if that is SETTINGS of the gateway's own.
        """
        self.is_greeted, self._discards_ack = True, discards_ack

    def frame(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A SETTINGS frame.

        :raises WireError: if there are too many, or it is malformed (RFC 9113 section 6.5).
        """
        self._flood.count(now_ns)
        if stream:
            raise malformed(f"SETTINGS on stream {stream}")
        if not flags & ACK:
            self._forward(data[at + HEAD : stop], at, stop)
            return
        if stop - at > HEAD:
            raise malformed("a SETTINGS acknowledgement with a payload", ErrorCode.FRAME_SIZE_ERROR)
        self.has_acknowledged = True
        if self._discards_ack:  # the broker has sent nothing that this would acknowledge
            self._discards_ack = False
            self._frames.cut(at, stop)
        else:
            self._acknowledged(stop)

    def _forward(self, payload: bytes, at: int, stop: int) -> None:
        forwarded = bounded(payload, self._most, first=not self.have_come)
        self.have_come = True
        self.waits_for_update = self.waits_for_update or shrinks_table(payload)
        if forwarded != payload:
            self._frames.replace(at, stop, frame(SETTINGS, 0, 0, forwarded))
        self.unacknowledged.append(forwarded)
        if len(self.unacknowledged) > _MAX_UNACKNOWLEDGED:
            raise WireError(
                ErrorCode.ENHANCE_YOUR_CALM, GrpcClose.SETTINGS_FLOOD, "SETTINGS that are not acknowledged"
            )

    def _acknowledged(self, stop: int) -> None:
        """The other peer's settings apply from here on, to withheld bytes too (section 6.5.3)."""
        waiting = self.other.unacknowledged
        forwarded = dict(entries(waiting.popleft() if waiting else b""))
        self._frames.settings_apply(stop, forwarded.get(INITIAL_WINDOW), forwarded.get(MAX_FRAME, 0))
