"""What a failover controller counts, as plain numbers."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Figures:
    """Counters only grow; the others say how things are."""

    leading: bool = False
    """Whether this controller acts."""
    failovers: int = 0
    """Dead brokers whose topics all have a new owner."""
    topics_released: int = 0
    """Topics that were taken from a broker."""
    owners_changed: int = 0
    """Topics that were given to a broker."""
    last_failover_s: float = 0.0
    """When the last one was complete, Unix time; 0 if there was none."""
    last_failover_took_s: float = 0.0
    """From the moment at which the broker was seen to be gone, the grace included."""
    conflicts: int = 0
    """Moves left for the next turn, as something they rest on had changed."""
    store_errors: int = 0
    store_answered_ns: int | None = None
    """When the store last answered, monotonic; None if it never did."""
    foreign_writes: int = 0
    """Assignments that another than this controller wrote while it led."""
    registered_again: int = 0
    """Registrations under an id that was in use."""
    brokers: dict[str, int] = field(default_factory=dict)
    """Brokers by state: active, inactive (alive, to be given no topics), dead (gone, and still owners)."""
    topics: dict[str, int] = field(default_factory=dict)
    """Topics by state: owned, unassigned, owned_twice, unlisted (a dead broker's, no durable entries)."""
    strange_keys: int = 0
    """Keys and values of no known shape."""
    incomplete: dict[str, int] = field(default_factory=dict)
    """Topics of the last failover by the entry that they lack: policy, schema."""
