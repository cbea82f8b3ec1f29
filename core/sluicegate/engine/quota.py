"""Publish quotas of principals."""

from dataclasses import dataclass

_MOST = 1e15
"""Messages or bytes; above this a bucket misses single ones."""
_LONGEST_SHARE = 500


@dataclass(frozen=True, slots=True)
class Quota:
    """The rate that a principal may publish over all topics of one gateway; independent of factors."""

    messages_per_s: float = 0
    """Messages per second; 0 is unlimited."""
    bytes_per_s: float = 0
    """Bytes per second; 0 is unlimited."""
    share: str = ""
    """Name of the bucket: principals with equal ones share it, with the empty one all of them together."""

    def __post_init__(self) -> None:
        """Refuse what no bucket can have.

        :raises ValueError: if a rate is no finite number of 0 or more, or the name is no short text.
        """
        for rate in (self.messages_per_s, self.bytes_per_s):
            if type(rate) not in (int, float) or not 0 <= rate <= _MOST:  # NaN fails, too
                raise ValueError(f"a Quota has rate {rate!r}, expected a finite number of 0 or more")
        if not isinstance(self.share, str) or len(self.share) > _LONGEST_SHARE:
            raise ValueError(f"a Quota has share {self.share!r}, expected a short text")
