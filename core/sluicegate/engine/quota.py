"""Publish quotas of principals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """The rate that a principal may publish over all topics of one gateway; independent of factors."""

    messages_per_s: float = 0
    """Messages per second; 0 is unlimited."""
    bytes_per_s: float = 0
    """Bytes per second; 0 is unlimited."""
    share: str = ""
    """Name of the bucket: principals with equal ones share it, with the empty one all of them together."""
