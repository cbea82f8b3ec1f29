"""Time that passes only when a test says so."""


class ManualClock:
    """A monotonic clock in nanoseconds; calling it gives the time.

    :param now_ns: where it starts; not 0, so that a forgotten start value shows.
    """

    def __init__(self, now_ns: int = 1_000_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        """The time now."""
        return self.now_ns

    def advance(self, seconds: float = 0, *, ms: float = 0, ns: int = 0) -> int:
        """Let time pass.

        :param seconds: may be a fraction; added to `ms` and `ns`.
        :return: the new time.
        :raises ValueError: if time would go backwards.
        """
        passed = round(seconds * 1e9) + round(ms * 1e6) + ns
        if passed < 0:
            raise ValueError(f"time cannot go back by {-passed!r} ns, expected 0 or more")
        self.now_ns += passed
        return self.now_ns
