"""What all connections of one Kafka front share: gates, limits, identities."""

from collections import Counter
from collections.abc import Callable, Mapping

from sluicegate.broker import Services
from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import Gate
from sluicegate.engine.gates import GateCache
from sluicegate.model import ANONYMOUS
from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.codec.addresses import rewrite_node_endpoints
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.produce_requests import ProduceTopic
from sluicegate_kafka.codec.produce_responses import has_node_endpoints
from sluicegate_kafka.codec.request_sizes import API_KEYS, RequestSizes
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.requests.connection import Connection, Identity
from sluicegate_kafka.session.shared.arrival import Arrivals
from sluicegate_kafka.session.shared.audiences import Audiences
from sluicegate_kafka.session.shared.listing import GroupListing
from sluicegate_kafka.session.shared.offered_versions import OfferedVersions
from sluicegate_kafka.session.shared.plain_producers import PlainProducers
from sluicegate_kafka.session.shared.sequences import GapCount, Sequences

_FRANZ_GO = "kgo"
_MAX_FRANZ_GO = 10_000
"""Clients that are known to be franz-go; those that said so long ago are forgotten."""
_MAX_CLIENTS_WITH_GAPS = 10_000
_MAX_GAPS = 100_000
"""Gaps of all clients together; one refused request may add a thousand more."""
_LONGEST_RESPONSE = 100 * 1024 * 1024
"""Bytes of a response that is read whole, if clients may not send larger requests anyway."""
_MAX_TOPIC_NAMES = 100_000
"""Names of topics that are kept; those that are needed again are asked for again."""
_MAX_TOPIC_NAME = 249
"""Characters of a topic's name, as brokers have it."""
_NO_DISPATCH = (
    "max_producers_",
    "max_consumers_",
    "max_subscriptions_",
    "max_publish_",
    "max_message_size",
    "inspect",
)
"""Fields, and options of fields, that no Fetch response has to be read for."""


class Shared:
    """The front's state as its sessions see it."""

    def __init__(self, config: KafkaConfig, services: Services, nodes: Nodes) -> None:
        self._services = services
        self.gates: GateCache = services.gates
        self.budget: Budget = services.budget
        self.nodes = nodes
        self.audiences = Audiences()
        self.listing = GroupListing()
        self._franz_go: dict[int, None] = {}
        """Hashes of host and client id; who said so last is last."""
        self.sequences: dict[Identity, Sequences] = {}
        """Gaps in the numbers of idempotent producers, for clients that have any; last refused is last."""
        self._gap_count = GapCount()
        self.releases: dict[Connection, tuple[Callable[[int], Slices[None]], ...]] = {}
        """For each connection, what lets go of producers and readers that are idle for long, in slices."""
        self.max_frame_bytes = config.max_frame_bytes
        self.request_sizes = RequestSizes(
            config.max_frame_bytes, {API_KEYS[name]: size for name, size in config.request_bytes.items()}
        )
        self.max_requests_in_flight = config.max_requests_in_flight
        self.max_response_bytes = max(config.max_frame_bytes, _LONGEST_RESPONSE)
        self.max_hold_ns = config.max_hold * 1_000_000
        self.producer_idle_ns = config.producer_idle * 1_000_000
        self.silence_ns = config.silent_client * 1_000_000
        self.plain_producers = PlainProducers(self.silence_ns)
        self.counts: Counter[str] = Counter()
        """How often each event happened."""
        self.wall_ms = services.wall_ms
        """Wall-clock milliseconds since 1970 at a monotonic time."""
        self.reads_fetches = False
        """Whether any policy applies to deliveries; if not, responses stream through unread."""
        self.counts_consumers = False
        """Whether any policy limits consumers, so that readers without a group must be counted as well."""
        self.follows_assignments = False
        """Whether any policy depends on which partitions a group's members are assigned."""
        self.inspects = False
        """Whether any policy inspects compressed batches."""
        self._read_policies()
        self.gates.on_replace.append(self._read_policies)
        self.arrivals = Arrivals()
        self.offered_versions = OfferedVersions()
        self.topic_names: dict[bytes, str] = {}
        """Names of topics by their ids, as far as they were needed."""

    def gate(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        """The compiled gate of a topic.

        :raises ProtocolError: if no topic of that name can exist; nothing is kept for it.
        """
        if len(topic) > _MAX_TOPIC_NAME:
            raise ProtocolError(f"a topic name of {len(topic)} characters, expected up to {_MAX_TOPIC_NAME}")
        return self.gates.get(topic, exempt, now_ns)

    def is_exempt(self, principal: str) -> bool:
        """Whether an authenticated principal skips counts, rates and factors."""
        return principal in self._services.policies.exempt_principals

    def learn_topic_names(self, names: Mapping[bytes, str]) -> None:
        """Keep names of topics by their ids."""
        if len(self.topic_names) + len(names) > _MAX_TOPIC_NAMES:
            self.topic_names.clear()
        self.topic_names.update(names)

    def _read_policies(self) -> None:
        """Note what the policies now in force apply to."""
        layers = self._services.policies.layers
        fields = {name for layer in layers for name in (*layer.settings, *layer.ceilings)}
        self.reads_fetches = any(not name.rpartition(".")[2].startswith(_NO_DISPATCH) for name in fields)
        self.counts_consumers = any(name.startswith("max_consumers_") for name in fields)
        limits_subscriptions = any(name.startswith("max_subscriptions_") for name in fields)
        self.follows_assignments = self.reads_fetches or self.counts_consumers or limits_subscriptions
        self.inspects = "inspect" in fields
        for connection in self.releases:
            principal = connection.principal
            connection.accepted(principal, exempt=principal != ANONYMOUS and self.is_exempt(principal))

    def named(self, connection: Connection) -> None:
        """A client names its library. franz-go does so on one of its connections, so it is remembered."""
        if connection.software == _FRANZ_GO:
            key = hash(connection.identity[1:])
            self._franz_go.pop(key, None)
            self._franz_go[key] = None
            if len(self._franz_go) > _MAX_FRANZ_GO:
                del self._franz_go[next(iter(self._franz_go))]

    def sequences_of(self, connection: Connection) -> Sequences:
        """The gaps of a client that is refused now; those of clients refused long ago give way."""
        identity, renumbers = connection.identity, self._renumbers(connection)
        found = self.sequences.pop(identity, None) or Sequences(self._gap_count, renumbers=renumbers)
        found.renumbers = renumbers
        self.sequences[identity] = found
        while len(self.sequences) > _MAX_CLIENTS_WITH_GAPS or self._gap_count.gaps > _MAX_GAPS:
            self.sequences.pop(next(iter(self.sequences))).clear()
        return found

    def postponed(self, connection: Connection, topic: ProduceTopic) -> None:
        """A topic's batches are refused for now: what their client has under way behind them must wait."""
        if topic.producer_id >= 0 and not self._renumbers(connection):
            self.sequences_of(connection).postponed(topic)

    def _renumbers(self, connection: Connection) -> bool:
        """Whether a client does not name its library.

        It is aiokafka or kafkajs, which send one batch of a partition at a time, or older than Kafka 2.4.
        """
        return not connection.software and hash(connection.identity[1:]) not in self._franz_go

    def readdress_produce(self, frame: bytes, version: int) -> bytes:
        """A Produce response in which broker addresses, if it has any, are the gateway's."""
        if has_node_endpoints(frame, version):
            return rewrite_node_endpoints(frame, version, self.nodes.named)
        return frame

    def count_unknown(self, api_key: int) -> None:
        """Count a request if its API key is unknown."""
        if api_key > 200 or api_key < 0:
            self.counts[KafkaEvent.UNKNOWN_API_PASSED] += 1

    def counters(self) -> Mapping[str, int]:
        """Event counters by name."""
        return {str(event): count for event, count in self.counts.items()}
