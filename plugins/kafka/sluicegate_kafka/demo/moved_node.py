"""Has the mock cluster's node be found at another port, as it cannot be told to advertise one."""

_LENGTH = 4


class MovedNode:
    """The answers on one connection, in which the node's port is replaced.

    :param port: where the node listens, and what it says.
    :param other: the port to say instead.
    """

    def __init__(self, port: int, other: int) -> None:
        host = b"127.0.0.1"
        self._said = host + port.to_bytes(4, "big")
        self._replaced = host + other.to_bytes(4, "big")
        self._pending = b""

    def answer(self, data: bytes) -> bytes:
        """The whole frames of what has come so far, with the other port."""
        self._pending += data
        end = 0
        while len(self._pending) - end >= _LENGTH:
            length = int.from_bytes(self._pending[end : end + _LENGTH], "big")
            if len(self._pending) < end + _LENGTH + length:
                break
            end += _LENGTH + length
        frames, self._pending = self._pending[:end], self._pending[end:]
        return frames.replace(self._said, self._replaced)
