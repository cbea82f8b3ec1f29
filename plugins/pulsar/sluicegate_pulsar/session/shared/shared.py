"""What all connections of one Pulsar front share: gates, limits, brokers, counters."""

from collections import Counter
from collections.abc import Mapping

from sluicegate.broker import Services
from sluicegate.engine.budget import Budget
from sluicegate.engine.delivery_time import FirstSeen
from sluicegate.engine.gates import GateCache
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.producer_state.chunks import RefusedMessages
from sluicegate_pulsar.session.producer_state.publish_memory import PublishMemory
from sluicegate_pulsar.session.shared.broker_refusals import Reports
from sluicegate_pulsar.session.shared.sizes import advertised_size
from sluicegate_pulsar.session.shared.subscriptions import Subscriptions


class Shared:
    """The front's state as its sessions see it."""

    def __init__(self, config: PulsarConfig, services: Services, brokers: Brokers) -> None:
        self.config = config
        self._services = services
        self.gates: GateCache = services.gates
        """Gates of topics by their full names (`names.topic_name(...).full`)."""
        self.publish_memory = PublishMemory(config.publish_queue, services.budget)
        self.refused_messages = RefusedMessages()
        self.brokers = brokers
        self.subscriptions = Subscriptions()
        self.added_delay_ms = 0
        """What fixed delays grow by, so that brokers that are not strict about deliverAt are never early."""
        self.counts: Counter[str] = Counter()
        self.reports = Reports()
        """Refusals by the broker that are to be logged."""
        self.wall_ms = services.wall_ms
        """Wall-clock milliseconds since 1970 at a monotonic time."""
        self.first_seen = FirstSeen()

    @property
    def budget(self) -> Budget:
        """Bytes that all sessions may hold together."""
        return self._services.budget

    @property
    def max_hold_ns(self) -> int:
        """How long a request may be held."""
        return self.config.max_hold * 1_000_000

    def delays_grow_by(self, ms: int) -> None:
        """It is known how strictly the brokers delay; see `added_delay_ms`."""
        self.added_delay_ms = ms

    def is_exempt(self, principal: str) -> bool:
        """Whether an authenticated principal skips counts, rates and factors."""
        return principal in self._services.policies.exempt_principals

    def advertised_size(self, brokers_own: int) -> int:
        """The largest message size announced to clients, in bytes (see `sizes`)."""
        return advertised_size(self._services.policies, brokers_own)

    def count(self, event: PulsarEvent) -> None:
        """Count an event."""
        self.counts[str(event)] += 1

    def counters(self) -> Mapping[str, int]:
        """Event counters by name."""
        return dict(self.counts)
