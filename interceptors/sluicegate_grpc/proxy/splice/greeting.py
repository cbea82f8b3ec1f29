"""The beginning of a connection: buffers the client's bytes until the broker is known and connected."""

from sluicegate.engine.budget import Budget
from sluicegate.model import ConnectionClose
from sluicegate.sessions.pieces import Pieces
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
from sluicegate_grpc.proxy.splice.shared import Limits

_MOST = 262_144
"""Bytes that a client may send before it asks for anything."""


class Opening:
    """What a client sends before its broker is connected.

    :param budget: bytes that all sessions may keep together.
    :param limits: what a client may do.
    """

    __slots__ = ("_at", "_block", "_early", "_limits")

    def __init__(self, budget: Budget, limits: Limits) -> None:
        self._early = Pieces(budget)
        self._limits = limits
        self._at = len(PREFACE)
        self._block = b""

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept."""
        return self._early.size

    def keep(self, data: bytes) -> None:
        """Buffer more bytes.

        :raises WireError: if it is too much, or not HTTP/2.
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

    def first_request(self) -> dict[str, str] | None:
        """The headers of the first request; None if it has not come.

        :raises WireError: if they cannot be read.
        """
        data = self._early.joined()
        for kind, flags, _, at, stop in whole_frames(data, self._at):
            if kind in (HEADERS, CONTINUATION):
                begin, end = unpadded(data, at, stop, flags if kind == HEADERS else 0)
                self._block += data[begin:end]
                if flags & END_HEADERS:
                    return dict(reversed(read_alone(self._block, self._limits.header_list_bytes)))
            self._at = stop
        return None
