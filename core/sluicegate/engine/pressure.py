"""Sources of pressure on a broker: its memory, and the backlogs of its topics."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages of one topic that its consumers have yet to take."""

    bytes: float
    """Bytes of the subscription that is furthest behind; estimated where the broker only counts messages."""
    quota_bytes: float
    """Bound on these bytes; 0 or less if there is none."""


Reading: TypeAlias = float | Mapping[str, Backlog] | None


@dataclass(frozen=True, slots=True)
class PressureSource:
    """One thing to read; read by a supervised task, off the path of messages."""

    name: str
    """Name in logs and metrics, such as `pulsar_heap`."""
    kind: Literal["memory", "backlog"]
    read: Callable[[], Awaitable[Reading]]
    """Memory: usage as a share of the limit, 0.0 to 1.0 and above, or None if it is not known.
    Backlog: by topic, as the broker knows it. May raise: that is counted, and nothing is known."""
