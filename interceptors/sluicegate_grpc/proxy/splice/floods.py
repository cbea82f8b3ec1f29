"""How often a peer may do what costs it nothing: more than that in a second ends its connection."""

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
        """One more.

        :param earned: what gives leave for one event each beyond the limit, counted since ever.
        :raises WireError: if it is one too many.
        """
        if now_ns - self._since_ns >= _SECOND_NS:
            self._since_ns = now_ns
            self._count = 0
            self._earned = earned
        self._count += 1
        if self._count > self._limit + earned - self._earned:
            raise _flood(self._name, self._limit)


class Allowance:
    """As `Flood`, for what comes with every call: the caller counts `left` down, and asks when it is used up.

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
        """Allow some more.

        :param earned: what gives leave for one event each beyond the limit, counted since ever.
        :raises WireError: if it is too early.
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
