"""Reports events once that clients can repeat at will."""


class Once:
    """Passes the first event of each key.

    :param most: how many keys are remembered; further ones are not let through, so that no client can fill a
        log with keys of its own making.
    """

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._seen: set[str] = set()

    def first(self, key: str) -> bool:
        """Whether a key comes for the first time."""
        if key in self._seen or len(self._seen) >= self._most:
            return False
        self._seen.add(key)
        return True
