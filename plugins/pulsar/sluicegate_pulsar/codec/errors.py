"""The errors for malformed bytes."""


class ProtocolError(Exception):
    """Bytes that cannot be what they claim to be.

    :ivar reason: what is wrong, in lower case, for the log line.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ChecksumMismatchError(ProtocolError):
    """A frame with a wrong CRC32C: damaged in transit, or by its sender."""
