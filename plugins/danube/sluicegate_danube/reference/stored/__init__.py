"""Reference brokers that form a cluster by a shared metadata store, as Danube's do.

Each `StoredBroker` serves what the store assigns to it. Several in one process may share one store in memory.
"""

from sluicegate_danube.reference.stored.provisioning import create_namespace, create_topic
from sluicegate_danube.reference.stored.stored_broker import StoredBroker

__all__ = ["StoredBroker", "create_namespace", "create_topic"]
