"""Whether the frames of one side are read."""


class Reading:
    """Reasons not to read from one side; while there is one, frames that were read already wait too."""

    __slots__ = ("stops",)

    def __init__(self) -> None:
        self.stops = 0
        """How many there are."""

    def stop(self) -> None:
        """Read nothing more, for one more reason."""
        self.stops += 1

    def resume(self) -> None:
        """Remove one reason."""
        self.stops -= 1
