"""What all connections of one Kafka front share: gates, limits, identities."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from sluicegate.broker import Services
from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import Gate
from sluicegate.engine.gates import GateCache
from sluicegate.model import ANONYMOUS
from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.shared.audiences import Audiences
from sluicegate_kafka.session.shared.client_gaps import ClientGaps
from sluicegate_kafka.session.shared.learned import Learned
from sluicegate_kafka.session.shared.plain_producers import PlainProducers
from sluicegate_kafka.session.shared.policed import Limits, Policed

MAX_TOPIC_NAME: Final = 249
"""Characters of a topic's name, as brokers have it."""


class Shared:
    """The front's state as its sessions see it."""

    def __init__(self, config: KafkaConfig, services: Services, nodes: Nodes) -> None:
        self._config = config
        self._services = services
        self.gates: GateCache = services.gates
        self.budget: Budget = services.budget
        self.limits = Limits.of(config)
        self.learned = Learned(nodes)
        self.audiences = Audiences()
        self.plain_producers = PlainProducers(self.limits.silence_ns)
        self.client_gaps = ClientGaps()
        self.releases: dict[Connection, tuple[Callable[[int], Slices[None]], ...]] = {}
        """For each connection, what lets go of producers and readers that are idle for long, in slices."""
        self.counts: Counter[str] = Counter()
        """How often each event happened."""
        self._read_policies()
        self.gates.on_replace.append(self._read_policies)

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time."""
        return self._services.wall_ms(now_ns)

    def gate(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        """The compiled gate of a topic.

        :raises ProtocolError: if no topic of that name can exist; nothing is kept for it.
        """
        if len(topic) > MAX_TOPIC_NAME:
            raise ProtocolError(f"a topic name of {len(topic)} characters, expected up to {MAX_TOPIC_NAME}")
        return self.gates.get(topic, exempt, now_ns)

    def is_exempt(self, principal: str) -> bool:
        """Whether an authenticated principal skips counts, rates and factors."""
        return principal in self._services.policies.exempt_principals

    def _read_policies(self) -> None:
        """Note what the policies now in force apply to."""
        self.policed = Policed.by(self._services.policies.layers, self._config)
        for connection in self.releases:
            principal = connection.principal
            connection.accepted(principal, exempt=principal != ANONYMOUS and self.is_exempt(principal))

    def count(self, event: KafkaEvent) -> None:
        """Count an event."""
        self.counts[str(event)] += 1

    def count_unknown(self, api_key: int) -> None:
        """Count a request if its API key is unknown."""
        if api_key > 200 or api_key < 0:
            self.count(KafkaEvent.UNKNOWN_API_PASSED)

    def counters(self) -> Mapping[str, int]:
        """Event counters by name."""
        return {str(event): count for event, count in self.counts.items()}
