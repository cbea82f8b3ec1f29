"""What a principal may publish."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """What a principal may publish over all topics of one gate; a stable value that knows no factor."""

    messages_per_s: float = 0
    """Messages per second; 0 is unlimited."""
    bytes_per_s: float = 0
    """Bytes per second; 0 is unlimited."""
    share: str = ""
    """Name of the bucket: principals with equal ones share it, with the empty one all of them together."""
