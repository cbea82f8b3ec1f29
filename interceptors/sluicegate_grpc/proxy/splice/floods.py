"""Rate limits on control frames (rapid reset, ping and settings floods)."""

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.connection_limits import Limits
from sluicegate_grpc.proxy.splice.frames import ErrorCode, WireError

_SECOND_NS = 1_000_000_000


class Flood:
    """Events of one kind.

    :param reason: for closing the connection of a peer that goes on.
    :param limit: in a second.
    """

    __slots__ = ("_earned", "_limit", "_reason", "_since_ns", "left")

    def __init__(self, reason: GrpcClose, limit: int) -> None:
        self._reason = reason
        self._limit = limit
        self._earned = 0
        self._since_ns = -_SECOND_NS
        self.left = 0
        """Events that are allowed without asking; a hot caller counts them down itself."""

    def count(self, now_ns: int, earned: int = 0) -> None:
        """Count one event.

        :param earned: how many extra events the peer has earned, counted from the start.
        :raises WireError: if the limit is exceeded.
        """
        self.left -= 1
        if self.left < 0:
            self.renew(now_ns, earned)

    def renew(self, now_ns: int, earned: int) -> None:
        """Allow more events, and count one; for when none is left."""
        left = earned - self._earned
        if now_ns - self._since_ns >= _SECOND_NS:
            self._since_ns = now_ns
            left = self._limit
        if left <= 0:
            text = f"over {self._limit} {self._reason.removesuffix('_flood')} in a second"
            raise WireError(ErrorCode.ENHANCE_YOUR_CALM, self._reason, text)
        self._earned = earned
        self.left = left - 1


class ControlFloods:
    """The floods of one client's control frames.

    :param limits: of its connection.
    """

    __slots__ = ("empty", "pings", "pongs", "windows")

    def __init__(self, limits: Limits) -> None:
        self.pings = Flood(GrpcClose.PINGS_FLOOD, limits.pings)
        self.pongs = Flood(GrpcClose.PINGS_FLOOD, limits.pings)
        self.windows = Flood(GrpcClose.WINDOW_UPDATES_FLOOD, limits.window_updates)
        self.empty = Flood(GrpcClose.EMPTY_FRAMES_FLOOD, limits.empty_frames)
