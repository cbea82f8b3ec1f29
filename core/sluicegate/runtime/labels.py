"""Labels of metrics: the names of topics, subscriptions, principals and clients, in bounded length."""

from sluicegate.model import shortened

OTHER = "other"
"""Label of all that have none of their own; see `label`."""
LONGEST = 300
"""Characters of a label. Longer names, which brokers refuse mostly, would make each scrape large."""


def label(name: str) -> str:
    """The label of a name: never OTHER, and a different one for each name."""
    return f"{name}_" if name.rstrip("_") == OTHER else shortened(name, LONGEST)
