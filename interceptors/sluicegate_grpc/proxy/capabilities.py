"""Which policies a gateway can enforce for a gRPC broker, by its method map."""

from collections.abc import Mapping

from sluicegate.model import Method, MethodMap, Role

_PUBLISHING = (
    "max_publish_rate",
    "max_publish_rate_bytes",
    "max_message_size",
    "publish_quota",
    "publish_quota_bytes",
    "principal_publish_quota",
    "principal_publish_quota_bytes",
    "storage_quota",
    "required_headers",
    "allowed_content",
)
_HEADERS = ("forbidden_headers", "remove_headers")
_DISPATCHING = (
    "max_dispatch_rate",
    "max_dispatch_rate_bytes",
    "max_subscription_dispatch_rate",
    "max_subscription_dispatch_rate_bytes",
    "fixed_delivery_delay",
    "consume_quota",
    "consume_quota_bytes",
    "principal_consume_quota",
    "principal_consume_quota_bytes",
)
_CONSUMING = (
    "max_subscriptions_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "write_only",
)
_NOT_APPLICABLE = ("inspect", "max_delivery_delay", "delay_header", "allow_topic_creation", "max_partitions")
"""Messages are not inspected, a map has no field for a delay that a producer asks for, and nothing says
whether a topic exists that a producer attaches to."""


def capabilities_of(methods: MethodMap) -> Mapping[str, str]:
    """`emulated` for each policy that the map's methods let the gateway enforce, else `not applicable`."""
    every = tuple(methods.methods.values())
    publishes = any(method.role is Role.PUBLISH for method in every)
    dispatches = any(method.role is Role.DISPATCH for method in every)
    produces = any(_names_a_producer(method) for method in every)
    consumes = any(method.role is Role.SUBSCRIBE or _attaches_by_stream(method) for method in every)
    positions = any(method.role is Role.DISPATCH and method.position for method in every)
    acknowledges = any(method.role is Role.ACKNOWLEDGE for method in every)
    held = {
        **dict.fromkeys(_PUBLISHING, publishes),
        **dict.fromkeys(_HEADERS, any(method.headers for method in every)),
        **dict.fromkeys(_DISPATCHING, dispatches),
        **dict.fromkeys(_CONSUMING, consumes),
        **dict.fromkeys(_NOT_APPLICABLE, False),
        "max_producers_per_topic": produces,
        "max_unacked_messages_per_consumer": positions and acknowledges,
        "connection_rate_limit": produces or consumes,
        "read_only": publishes or produces,
        "client_id_pattern": produces or consumes,
    }
    return {policy: "emulated" if is_held else "not applicable" for policy, is_held in held.items()}


def _names_a_producer(method: Method) -> bool:
    by_publishing = method.role is Role.PUBLISH and bool(method.producer or method.by_connection)
    return method.role is Role.ATTACH_PRODUCER or by_publishing


def _attaches_by_stream(method: Method) -> bool:
    return method.role is Role.DISPATCH and bool(method.topic)
