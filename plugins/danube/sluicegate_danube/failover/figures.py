"""What a failover controller counts, each figure with what its metric says."""

from dataclasses import dataclass, field
from typing import Any


def _counter(text: str) -> Any:
    """A figure that only grows; its metric has the same name.

    :param text: what it says.
    """
    return field(default=0, metadata={"text": text})


def _gauge(metric: str, text: str, default: float = 0) -> Any:
    return field(default=default, metadata={"metric": metric, "text": text})


def _labelled(metric: str, label: str, text: str) -> Any:
    """One figure for each value of a label."""
    return field(default_factory=dict, metadata={"metric": metric, "label": label, "text": text})


@dataclass(slots=True)
class Figures:
    """Counters only grow; the others say how things are."""

    failovers: int = _counter("Dead brokers whose topics all have a new owner.")
    topics_released: int = _counter("Topics taken from a broker.")
    owners_changed: int = _counter("Topics given to a broker.")
    conflicts: int = _counter("Moves left for the next turn, as the cluster had changed.")
    store_errors: int = _counter("Calls that the metadata store did not answer, or refused.")
    foreign_writes: int = _counter("Assignments that another load manager wrote while this controller led.")
    registered_again: int = _counter("Registrations of brokers under an id that was in use.")
    leading: bool = _gauge("leader", "1 if this controller acts.", False)
    last_failover_s: float = _gauge(
        "last_failover_timestamp_seconds",
        "When the last failover was complete, Unix time; 0 if there was none.",
    )
    last_failover_took_s: float = _gauge(
        "last_failover_duration_seconds",
        "From the absence of the last dead broker until its last topic had a new owner.",
    )
    strange_keys: int = _gauge("strange_keys", "Keys and values of no known shape.")
    brokers: dict[str, int] = _labelled("brokers", "state", "Brokers by state.")  # noqa: RUF009 - a field
    """active, inactive (alive, to be given no topics), dead (gone, and still owners)"""
    topics: dict[str, int] = _labelled("topics", "state", "Topics by state.")  # noqa: RUF009 - a field
    """owned, unassigned, owned_twice, unlisted (a dead broker's, no durable entries)"""
    incomplete: dict[str, int] = _labelled(  # noqa: RUF009 - a field
        "incomplete_topics", "entry", "Topics of the last failover without an entry that brokers look for."
    )
    """policy, schema"""
    store_answered_ns: int | None = None
    """When the store last answered, monotonic; None if it never did."""
