"""A bound on what may be held in memory together."""


class Budget:
    """So many bytes, shared by all sessions of a gate.

    :param limit: bytes that may be taken together; 0 is unlimited.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, amount: int, spare: int = 0) -> bool:
        """Take `amount` bytes if they are left; False if not, and nothing is taken.

        :param spare: bytes that are to be left to others, who cannot do without.
        """
        used = self.used + amount
        if used + spare > self.limit > 0:
            return False
        self.used = used
        return True

    def give(self, amount: int) -> None:
        """Give back what was taken; giving back more than was taken is a bug of the caller.

        :raises ValueError: if more is given back than was taken.
        """
        if amount > self.used:
            raise ValueError(f"{amount!r} bytes given back, but only {self.used!r} are taken")
        self.used -= amount
