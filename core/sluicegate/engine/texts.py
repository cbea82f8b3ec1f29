"""Error texts for clients. Each text names the limit, the current value, the limit's value, the topic and
what can be done; the wording follows Danube's, so that its users and tools recognise it.

`current` is the value if the operation had passed. Of rates, it and the limit are in `unit`, `messages/s` or
`bytes/s`, and `policy` is the policy to increase.
"""  # noqa: D205


def _amount(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def producers(topic: str, current: int, limit: float) -> str:
    """Too many producers on a topic."""
    return (
        f"Producer limit reached for topic {topic}. Current: {current}, Limit: {_amount(limit)}. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy."
    )


def subscriptions(topic: str, current: int, limit: float) -> str:
    """Too many subscriptions on a topic."""
    return (
        f"Subscription limit reached for topic {topic}. Current: {current}, Limit: {_amount(limit)}. "
        "Delete subscriptions that are no longer used or increase max_subscriptions_per_topic policy."
    )


def subscriptions_unknown(topic: str, limit: float) -> str:
    """The existing subscriptions are not known yet, and the policy says to wait for them."""
    return (
        f"Subscription limit cannot be checked for topic {topic}. Current: unknown, Limit: {_amount(limit)}. "
        "Try again shortly, or set on_unknown.max_subscriptions_per_topic to 'open' or 'last'."
    )


def consumers_of_topic(topic: str, current: int, limit: float) -> str:
    """Too many consumers on a topic."""
    return (
        f"Consumer limit per topic reached for {topic}. Current: {current}, Limit: {_amount(limit)}. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_topic policy."
    )


def consumers_of_subscription(topic: str, subscription: str, current: int, limit: float) -> str:
    """Too many consumers on a subscription."""
    return (
        f"Consumer limit per subscription reached on topic {topic} subscription {subscription}. "
        f"Current: {current}, Limit: {_amount(limit)}. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_subscription policy."
    )


def message_size(topic: str, size: int, limit: float) -> str:
    """A message is larger than allowed."""
    return (
        f"Message size exceeds maximum allowed for topic {topic}. "
        f"Current: {size} bytes, Limit: {_amount(limit)} bytes. "
        "Send smaller messages or increase max_message_size policy."
    )


def unreadable(topic: str, why: str) -> str:
    """Compressed messages could not be inspected."""
    return (
        f"Compressed messages for topic {topic} cannot be inspected: {why}. "
        "Send smaller batches, or whole ones that say what they hold."
    )


def rate(what: str, where: str, current: float, limit: float, unit: str, policy: str) -> str:
    """A rate is used up.

    :param what: `Publish`, `Dispatch` or `Subscription dispatch`.
    :param where: `topic T`, or `topic T subscription S`.
    :param current: the rate if this operation had passed, in `unit`.
    :param limit: the limit, in `unit`.
    :param unit: `messages/s` or `bytes/s`.
    :param policy: name of the policy to increase.
    """
    return (
        f"{what} rate limit exceeded for {where}. "
        f"Current: {_amount(current)} {unit}, Limit: {_amount(limit)} {unit}. "
        f"Slow down or increase {policy} policy."
    )


def reduced(factor: str, value: float, why: str, what: str, current: float, limit: float, unit: str) -> str:
    """A quota factor left too little of a rate.

    :param factor: name of the factor.
    :param value: what it leaves, 0.0 to 1.0.
    :param why: why, a clause; may be empty.
    :param what: what is limited: `topic T`, or `principal P on topic T`.
    :param current: the rate if this operation had passed, in `unit`.
    :param limit: the reduced limit, in `unit`.
    :param unit: `messages/s` or `bytes/s`.
    """
    return (
        f"Publish rate reduced to {value:.0%} by {factor} for {what}{_because(why)}. "
        f"Current: {_amount(current)} {unit}, Limit: {_amount(limit)} {unit}."
    )


def paused(factor: str, topic: str, why: str) -> str:
    """A quota factor of 0: nothing is published."""
    return f"Publishing is paused by {factor} for topic {topic}{_because(why)}."


def _because(why: str) -> str:
    return f": {why}" if why else ""


def quota(who: str, topic: str, current: float, limit: float, unit: str, policy: str) -> str:
    """A quota over all topics is used up.

    :param who: `principal P`, or `all principals`.
    :param topic: where it shows.
    :param current: the rate if this operation had passed, in `unit`.
    :param limit: the quota, in `unit`.
    :param unit: `messages/s` or `bytes/s`.
    :param policy: name of the policy to increase.
    """
    return (
        f"Publish quota exceeded by {who} on topic {topic}. "
        f"Current: {_amount(current)} {unit}, Limit: {_amount(limit)} {unit}. "
        f"Slow down or increase {policy} policy."
    )


def unacked(topic: str, subscription: str, current: int, limit: float) -> str:
    """A consumer has too many messages that it has not acknowledged."""
    return (
        f"Unacknowledged message limit reached on topic {topic} subscription {subscription}. "
        f"Current: {current}, Limit: {_amount(limit)}. "
        "Acknowledge messages or increase max_unacked_messages_per_consumer policy."
    )


def connection_rate(topic: str, current: float, limit: float) -> str:
    """Producers and consumers attach faster than allowed."""
    return (
        f"Connection rate limit exceeded for topic {topic}. "
        f"Current: {_amount(current)} attachments/s, Limit: {_amount(limit)} attachments/s. "
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
