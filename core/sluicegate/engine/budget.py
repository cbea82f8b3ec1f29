"""A bound on the memory that sessions use together."""

from collections.abc import Callable

_SPARE_PARTS = 8
"""Relief begins when less than this part of the limit is left, so that the next client gets memory."""


class Budget:
    """A number of bytes, shared by all sessions of a gateway.

    A session takes the bytes that it buffers and gives them back, or is closed. Bytes that are in memory
    already, such as a waiting response, are charged, which never fails. Once little is left, `on_pressure` is
    called; the gateway then closes the largest users first.

    :param limit: bytes that may be taken together; 0 is unlimited.
    """

    __slots__ = ("limit", "on_pressure", "others", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.others = 0
        """Bytes that no session takes, such as output that a client does not read, as last measured."""
        self.on_pressure: Callable[[], None] = _nothing
        """Called after each amount that leaves little; must return immediately and close nothing itself."""

    @property
    def mark(self) -> int:
        """Bytes in use above which there is pressure."""
        return self.limit - self.limit // _SPARE_PARTS

    def take(self, amount: int, spare: int = 0) -> bool:
        """Take `amount` bytes, or none and return False if fewer are left.

        :param spare: bytes that stay reserved for others.
        """
        used = self.used + amount
        limit = self.limit
        if used + self.others + spare > limit > 0:
            if not spare:  # who leaves bytes to others shows no want of them
                self.on_pressure()
            return False
        self.used = used
        if used + self.others > limit - limit // _SPARE_PARTS > 0:
            self.on_pressure()
        return True

    def charge(self, amount: int) -> None:
        """Count bytes that are in memory already, even beyond the limit."""
        self.used += amount
        limit = self.limit
        if self.used + self.others > limit - limit // _SPARE_PARTS > 0:
            self.on_pressure()

    def give(self, amount: int) -> None:
        """Give back what was taken or charged; giving back more is a bug of the caller.

        :raises ValueError: if more is given back than was taken.
        """
        if amount > self.used:
            raise ValueError(f"{amount!r} bytes given back, but only {self.used!r} are taken")
        self.used -= amount


def _nothing() -> None:
    """For a budget without relief: only its limit applies."""
