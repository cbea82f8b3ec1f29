"""How often a peer may do what costs it nothing: more than that in a second ends its connection."""

from sluicegate_grpc.splice.frames import ErrorCode, WireError

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
            text = f"over {self._limit} {self._name} in a second"
            raise WireError(ErrorCode.ENHANCE_YOUR_CALM, f"{self._name}_flood", text)
