"""Rate limits on control frames (rapid reset, ping and settings floods)."""

from sluicegate_grpc.proxy.splice.frames import ErrorCode, WireError

_SECOND_NS = 1_000_000_000


class Flood:
    """Events of one kind.

    :param name: for the counter and the text.
    :param limit: in a second.
    """

    __slots__ = ("_count", "_earned", "_limit", "_name", "_since_ns")

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._count = 0
        self._earned = 0
        self._since_ns = 0

    def count(self, now_ns: int, earned: int = 0) -> None:
        """Count one event.

        :param earned: how many extra events the peer has earned, counted from the start.
        :raises WireError: if the limit is exceeded.
        """
        if now_ns - self._since_ns >= _SECOND_NS:
            self._since_ns = now_ns
            self._count = 0
            self._earned = earned
        self._count += 1
        if self._count > self._limit + earned - self._earned:
            raise _flood(self._name, self._limit)


class Allowance:
    """As `Flood`, for frames of every call: the caller counts `left` down, and renews it at 0.

    :param name: for the counter and the text.
    :param limit: in a second.
    """

    __slots__ = ("_earned", "_limit", "_name", "_since_ns", "left")

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._earned = 0
        self._since_ns = 0
        self.left = 0
        """Events that are allowed without asking."""

    def renew(self, now_ns: int, earned: int) -> None:
        """Renew the allowance.

        :param earned: how many extra events the peer has earned, counted from the start.
        :raises WireError: if the limit is exceeded.
        """
        left = earned - self._earned
        if now_ns - self._since_ns >= _SECOND_NS:
            self._since_ns = now_ns
            left = self._limit
        if left <= 0:
            raise _flood(self._name, self._limit)
        self._earned = earned
        self.left = left


def _flood(name: str, limit: int) -> WireError:
    text = f"over {limit} {name} in a second"
    return WireError(ErrorCode.ENHANCE_YOUR_CALM, f"{name}_flood", text)
