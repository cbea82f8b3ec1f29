"""A small in-memory broker that speaks Pulsar's binary protocol, for demos and fast tests.

It is not Pulsar and says so to its clients. It stores, delays and delivers well enough for Pulsar's own
clients; never judge Pulsar by it. `ReferenceBroker` runs within this process,
`python -m sluicegate_pulsar.reference` as a process of its own.
"""

from sluicegate_pulsar.reference.broker import LABEL, Settings
from sluicegate_pulsar.reference.server import ReferenceBroker

__all__ = ["LABEL", "ReferenceBroker", "Settings"]
