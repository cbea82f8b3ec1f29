"""Error texts for clients. Each text names the limit, the current value, the limit's value, the topic and
what can be done; the wording follows Danube's, so that its users and tools recognise it.

`current` is the value if the operation had passed. Texts of rates stand where the rates are, and give both
values by `bucket.Shortage`.
"""  # noqa: D205

from collections.abc import Sequence

from sluicegate.engine.bucket import shown


def producers(topic: str, current: int, limit: float) -> str:
    """Too many producers on a topic."""
    return (
        f"Producer limit reached for topic {topic}. Current: {current}, Limit: {shown(limit)}. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy."
    )


def subscriptions(topic: str, current: int, limit: float) -> str:
    """Too many subscriptions on a topic."""
    return (
        f"Subscription limit reached for topic {topic}. Current: {current}, Limit: {shown(limit)}. "
        "Delete subscriptions that are no longer used or increase max_subscriptions_per_topic policy."
    )


def subscriptions_unknown(topic: str, limit: float) -> str:
    """The existing subscriptions are not known yet, and the policy says to wait for them."""
    return (
        f"Subscription limit cannot be checked for topic {topic}. Current: unknown, Limit: {shown(limit)}. "
        "Try again shortly, or set on_unknown.max_subscriptions_per_topic to 'open' or 'last'."
    )


def consumers_of_topic(topic: str, current: int, limit: float) -> str:
    """Too many consumers on a topic."""
    return (
        f"Consumer limit per topic reached for {topic}. Current: {current}, Limit: {shown(limit)}. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_topic policy."
    )


def consumers_of_subscription(topic: str, subscription: str, current: int, limit: float) -> str:
    """Too many consumers on a subscription."""
    return (
        f"Consumer limit per subscription reached on topic {topic} subscription {subscription}. "
        f"Current: {current}, Limit: {shown(limit)}. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_subscription policy."
    )


def place_not_known(policy: str, topic: str) -> str:
    """A limit is shared with other gateways or workers, and where these are counted has not answered."""
    return (
        f"{policy} cannot be checked for topic {topic}: the store of shared limits has not answered yet. "
        "Try again shortly."
    )


def message_size(topic: str, size: int, limit: float) -> str:
    """A message is larger than allowed."""
    return (
        f"Message size exceeds maximum allowed for topic {topic}. "
        f"Current: {size} bytes, Limit: {shown(limit)} bytes. "
        "Send smaller messages or increase max_message_size policy."
    )


def unreadable(topic: str, why: str) -> str:
    """Compressed messages could not be inspected."""
    return (
        f"Compressed messages for topic {topic} cannot be inspected: {why}. "
        "Send smaller batches, or whole ones that say what they hold."
    )


def read_only(topic: str) -> str:
    """Somebody publishes to a topic that is only read."""
    return f"Topic {topic} is read-only. Publish to another topic, or remove policy read_only."


def write_only(topic: str) -> str:
    """Somebody consumes from a topic that is only written."""
    return f"Topic {topic} is write-only. Consume from another topic, or remove policy write_only."


def creation(topic: str) -> str:
    """Somebody creates a topic where that is not allowed."""
    return (
        f"Topic {topic} may not be created. Use an existing one, or set policy allow_topic_creation to true."
    )


def partitions(topic: str, current: int, limit: float) -> str:
    """A topic would have too many partitions."""
    return (
        f"Partition limit reached for topic {topic}. Current: {current}, Limit: {shown(limit)}. "
        "Ask for fewer partitions or increase max_partitions policy."
    )


def client_id(topic: str, client_id: str, patterns: Sequence[str]) -> str:
    """A client's id matches none of the patterns."""
    return (
        f"Client id {client_id or '(none)'} may not use topic {topic}. Allowed: {', '.join(patterns)}. "
        "Set another client id, or add it to policy client_id_pattern."
    )


def not_read(policy: str, topic: str, why: str) -> str:
    """A policy reads messages that cannot be read."""
    return (
        f"Messages for topic {topic} cannot be read: {why}. "
        f"Policy {policy} needs to: send them in a form that can be read, or remove the policy."
    )


def header_missing(topic: str, name: str) -> str:
    """A message lacks a header that it must have."""
    return (
        f"A message for topic {topic} has no header {name}. "
        "Set it in the producer, or take it out of policy required_headers."
    )


def header_forbidden(topic: str, name: str) -> str:
    """A message has a header that it must not have."""
    return (
        f"A message for topic {topic} has header {name}, which policy forbidden_headers forbids. "
        "Send it without that header."
    )


def content(topic: str, schema: str, allowed: Sequence[str]) -> str:
    """A message is written by another schema than those that a topic takes."""
    written = f"is written by schema {schema}" if schema else "names no schema"
    return (
        f"A message for topic {topic} {written}. Allowed: {', '.join(allowed)}. "
        "Use an allowed schema, or add it to policy allowed_content."
    )


def delay_header(topic: str, name: str, problem: str) -> str:
    """A message does not say when it is to be delivered."""
    return (
        f"A message for topic {topic} has a header {name} by which it cannot be delivered: {problem}. "
        "Policy delay_header reads it."
    )


def unacked(topic: str, subscription: str, current: int, limit: float) -> str:
    """A consumer has too many messages that it has not acknowledged."""
    return (
        f"Unacknowledged message limit reached on topic {topic} subscription {subscription}. "
        f"Current: {current}, Limit: {shown(limit)}. "
        "Acknowledge messages or increase max_unacked_messages_per_consumer policy."
    )


def connection_rate(topic: str, current: float, limit: float) -> str:
    """Producers and consumers attach faster than allowed."""
    return (
        f"Connection rate limit exceeded for topic {topic}. "
        f"Current: {shown(current)} attachments/s, Limit: {shown(limit)} attachments/s. "
        "Connect more slowly or increase connection_rate_limit policy."
    )


def timestamp_ahead(topic: str, ahead_ms: int, limit_ms: int) -> str:
    """A message is stamped further in the future than a fixed delivery delay can honour."""
    return (
        f"Message time stamp is too far in the future for topic {topic}. "
        f"Current: {ahead_ms} ms ahead, Limit: {limit_ms} ms. "
        "Correct the producer's clock or increase max_timestamp_ahead policy."
    )


def delivery_delay(limit_ms: int) -> str:
    """A message asks for a longer delay than allowed, in Pulsar's words (PIP-315), which tools recognise."""
    return f"Exceeds max allowed delivery delay of {limit_ms} milliseconds"


def check_failed(policy: str, topic: str) -> str:
    """A policy's check raised, and the policy says to refuse then."""
    return (
        f"Policy {policy} could not be checked for topic {topic}. "
        "Try again later; the gateway's log names the plugin that failed."
    )
