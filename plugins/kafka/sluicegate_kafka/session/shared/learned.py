"""What the cluster's responses to all clients have shown."""

from collections.abc import Mapping

from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.codec.addresses import rewrite_node_endpoints
from sluicegate_kafka.codec.produce_responses import has_node_endpoints
from sluicegate_kafka.session.shared.arrival import Arrivals
from sluicegate_kafka.session.shared.listing import GroupListing
from sluicegate_kafka.session.shared.offered_versions import OfferedVersions

_MAX_TOPIC_NAMES = 100_000
"""Names of topics that are kept; those that are needed again are asked for again."""


class Learned:
    """What is known of the cluster.

    :param nodes: its nodes.
    """

    __slots__ = ("arrivals", "listing", "nodes", "offered_versions", "topic_names")

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.listing = GroupListing()
        self.arrivals = Arrivals()
        self.offered_versions = OfferedVersions()
        self.topic_names: dict[bytes, str] = {}
        """Names of topics by their ids, as far as they were needed."""

    def learn_topic_names(self, names: Mapping[bytes, str]) -> None:
        """Keep names of topics by their ids."""
        if len(self.topic_names) + len(names) > _MAX_TOPIC_NAMES:
            self.topic_names.clear()
        self.topic_names.update(names)

    def readdress_produce(self, frame: bytes, version: int) -> bytes:
        """A Produce response in which broker addresses, if it has any, are the gateway's."""
        if has_node_endpoints(frame, version):
            return rewrite_node_endpoints(frame, version, self.nodes.named)
        return frame
