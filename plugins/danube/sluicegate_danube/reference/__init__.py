"""A small in-memory broker that speaks Danube's gRPC protocol, for demos and fast tests.

It is not Danube and says so to its clients: no registry serves the real broker. It stores, dispatches and
answers well enough for Danube's own clients; never judge Danube by it. `ReferenceBroker` runs within this
process, `python -m sluicegate_danube.reference` as one of its own.
"""

from sluicegate_danube.reference.broker_settings import LABEL, Settings
from sluicegate_danube.reference.server import ReferenceBroker

__all__ = ["LABEL", "ReferenceBroker", "Settings"]
