"""What the entry of the file limits, and what the policies in force apply to."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from sluicegate.model import PolicyLayer
from sluicegate_kafka.codec.request_sizes import API_KEYS, RequestSizes
from sluicegate_kafka.config import KafkaConfig

_LONGEST_RESPONSE = 100 * 1024 * 1024
"""Bytes of a response that is read whole, if clients may not send larger requests anyway."""
_NO_DISPATCH = (
    "max_producers_",
    "max_consumers_",
    "max_subscriptions_",
    "max_publish_",
    "max_message_size",
    "inspect",
    "required_headers",
    "forbidden_headers",
    "remove_headers",
    "allowed_content",
    "read_only",
    "write_only",
    "client_id_pattern",
    "allow_topic_creation",
    "max_partitions",
)
"""Fields, and options of fields, that no Fetch response has to be read for."""
_CONSUMERS = ("max_consumers_", "write_only", "client_id_pattern")
"""Fields that apply to each consumer."""


class Limits(NamedTuple):
    """Limits of each connection, as the entry of the file says."""

    max_frame_bytes: int
    max_response_bytes: int
    request_sizes: RequestSizes
    max_requests_in_flight: int
    max_hold_ns: int
    producer_idle_ns: int
    silence_ns: int

    @classmethod
    def of(cls, config: KafkaConfig) -> Self:
        """Those of an entry."""
        largest = config.max_frame_bytes
        sizes = {API_KEYS[name]: size for name, size in config.request_bytes.items()}
        return cls(
            largest,
            max(largest, _LONGEST_RESPONSE),
            RequestSizes(largest, sizes),
            config.max_requests_in_flight,
            max_hold_ns=config.max_hold * 1_000_000,
            producer_idle_ns=config.producer_idle * 1_000_000,
            silence_ns=config.silent_client * 1_000_000,
        )


class Policed(NamedTuple):
    """What the policies now in force apply to, at any level."""

    reads_fetches: bool
    """Whether any policy applies to deliveries; if not, responses stream through unread."""
    counts_consumers: bool
    """Whether any policy applies to consumers, so that readers without a group must attach as well."""
    follows_assignments: bool
    """Whether any policy depends on which partitions a group's members are assigned."""
    inspects: bool
    """Whether any policy inspects compressed batches."""

    @classmethod
    def by(cls, layers: Iterable[PolicyLayer], config: KafkaConfig) -> Self:
        """What these layers of policies and the entry of the file apply to."""
        fields = {name for layer in layers for name in (*layer.settings, *layer.ceilings)}
        has_budgets = any(tenant.limits_consuming for tenant in config.tenant_quotas)
        reads_fetches = has_budgets or any(
            not name.rpartition(".")[2].startswith(_NO_DISPATCH) for name in fields
        )
        counts_consumers = any(name.startswith(_CONSUMERS) for name in fields)
        limits_subscriptions = any(name.startswith("max_subscriptions_") for name in fields)
        follows = reads_fetches or counts_consumers or limits_subscriptions
        return cls(reads_fetches, counts_consumers, follows, "inspect" in fields)
