"""The error of each policy, as clients see it."""

from tests.danube.conformance.steps import TOPIC, Refused


def producers(limit: int, level: str = "topic", topic: str = TOPIC) -> Refused:
    return Refused(
        policy="max_producers_per_topic",
        text=f"Producer limit reached for topic {topic}. Current: {limit}, Limit: {limit}. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy.",
        limit=limit,
        current=limit,
        level=level,
    )


def subscriptions(limit: int) -> Refused:
    return Refused(
        policy="max_subscriptions_per_topic",
        text=f"Subscription limit reached for topic {TOPIC}. Current: {limit}, Limit: {limit}. "
        "Delete subscriptions that are no longer used or increase max_subscriptions_per_topic policy.",
        limit=limit,
        current=limit,
    )


def consumers_of_topic(limit: int) -> Refused:
    return Refused(
        policy="max_consumers_per_topic",
        text=f"Consumer limit per topic reached for {TOPIC}. Current: {limit}, Limit: {limit}. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_topic policy.",
        limit=limit,
        current=limit,
    )


def consumers_of_subscription(limit: int, subscription: str) -> Refused:
    return Refused(
        policy="max_consumers_per_subscription",
        text=f"Consumer limit per subscription reached on topic {TOPIC} subscription {subscription}. "
        f"Current: {limit}, Limit: {limit}. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_subscription policy.",
        limit=limit,
        current=limit,
    )


def size(limit: int, current: int, level: str = "topic", topic: str = TOPIC) -> Refused:
    return Refused(
        policy="max_message_size",
        code="INVALID_ARGUMENT",
        text=f"Message size exceeds maximum allowed for topic {topic}. "
        f"Current: {current} bytes, Limit: {limit} bytes. "
        "Send smaller messages or increase max_message_size policy.",
        limit=limit,
        current=current,
        level=level,
    )


def publish_rate(limit: int, unit: str, policy: str) -> Refused:
    return Refused(
        policy=policy,
        text=f"Publish rate limit exceeded for topic {TOPIC}. "
        f"Current: {{}} {unit}, Limit: {limit} {unit}. Slow down or increase {policy} policy.",
        limit=limit,
        retry=True,
    )


def connection_rate(limit: int) -> Refused:
    return Refused(
        policy="connection_rate_limit",
        text=f"Connection rate limit exceeded for topic {TOPIC}. "
        f"Current: {{}} attachments/s, Limit: {limit} attachments/s. "
        "Connect more slowly or increase connection_rate_limit policy.",
        limit=limit,
        level="broker",
        retry=True,
    )
