"""SETTINGS as they pass the gate.

Header compression is stateless on both sides (SETTINGS_HEADER_TABLE_SIZE 0, RFC 7541 section 4.2): so a
request that is refused need not go to the broker, and the gate's own answers disturb nobody's table.
"""

from collections.abc import Iterator
from struct import Struct

from sluicegate_grpc.splice.frames import ErrorCode, WireError

TABLE_SIZE = 1
INITIAL_WINDOW = 4
MAX_FRAME = 5
_DEFAULT_TABLE = 4_096
_ENTRY = Struct(">HI")


def entries(payload: bytes) -> Iterator[tuple[int, int]]:
    """Identifiers and values.

    :raises WireError: if it is cut off.
    """
    if len(payload) % _ENTRY.size:
        raise WireError(ErrorCode.FRAME_SIZE_ERROR, "frame_malformed", f"SETTINGS of {len(payload)} bytes")
    return _ENTRY.iter_unpack(payload)


def shrinks_table(payload: bytes) -> bool:
    """Whether a peer asks for a smaller table than it has from the beginning, and so waits to be told."""
    return any(name == TABLE_SIZE and value < _DEFAULT_TABLE for name, value in entries(payload))


def stateless(payload: bytes, max_frame: int, *, first: bool) -> bytes:
    """The same settings, but no table and frames of no more than `max_frame` bytes.

    :param first: True for the first of a side, which is to say that there is no table in any case.
    """
    kept = [(name, _bounded(name, value, max_frame)) for name, value in entries(payload)]
    if first and not any(name == TABLE_SIZE for name, _ in kept):
        kept.insert(0, (TABLE_SIZE, 0))
    return b"".join(_ENTRY.pack(name, value) for name, value in kept)


def _bounded(name: int, value: int, max_frame: int) -> int:
    if name == TABLE_SIZE:
        return 0
    return min(value, max_frame) if name == MAX_FRAME else value
