"""The ends of a connection without a socket."""

from collections.abc import Sequence


class FakeTransport:
    """An end of a connection that counts what it is given to send."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.is_read = True
        self.is_closed = False

    # What of `asyncio.Transport` the relay uses.

    def write(self, data: bytes) -> None:  # noqa: D102
        self.sent_bytes += len(data)

    def writelines(self, parts: Sequence[bytes]) -> None:  # noqa: D102
        for part in parts:
            self.write(part)

    def pause_reading(self) -> None:  # noqa: D102
        self.is_read = False

    def resume_reading(self) -> None:  # noqa: D102
        self.is_read = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:  # noqa: D102
        pass

    def get_write_buffer_size(self) -> int:  # noqa: D102
        return 0

    def can_write_eof(self) -> bool:  # noqa: D102
        return True

    def write_eof(self) -> None:  # noqa: D102
        self.is_closed = True

    def is_closing(self) -> bool:  # noqa: D102
        return self.is_closed

    def close(self) -> None:  # noqa: D102
        self.is_closed = True

    abort = close
