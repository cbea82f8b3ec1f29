"""A response that is finished before its turn."""

from sluicegate.broker import Buffer


class Held:
    """A finished response that waits for its turn, and until a time if one is given."""

    __slots__ = ("at_ns", "frame", "is_waiting")

    def __init__(self, frame: Buffer, at_ns: int = 0) -> None:
        self.frame = frame
        self.at_ns = at_ns
        self.is_waiting = False
        """Whether it is in its place, and neither sent nor settled."""
