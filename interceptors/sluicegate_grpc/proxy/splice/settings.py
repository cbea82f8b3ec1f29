"""SETTINGS as they pass the gateway.

Header compression is stateless on both sides (SETTINGS_HEADER_TABLE_SIZE 0, RFC 7541 section 4.2): so a
request that is refused need not go to the broker, and the gateway's own answers change no header table.
"""

from collections.abc import Iterator, Mapping
from struct import Struct

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.frames import (
    LEAST_MAX_FRAME,
    SETTINGS,
    ErrorCode,
    WireError,
    frame,
    malformed,
)
from sluicegate_grpc.proxy.splice.shared import Limits

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
