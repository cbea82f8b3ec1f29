"""What the room for Danube counts besides what every gRPC front counts."""

from sluicegate.model import CountedEvent


class DanubeEvent(CountedEvent):
    """Events of `sluicegate_broker_events_total`."""

    OWNER_CHANGED = "owner_changed", "A topic got another owner."
    PRODUCERS_RESUMED = (
        "producers_resumed",
        "A producer was created at the new owner of its topic (resume_producers).",
    )
    RELEASED_AT_OLD_OWNER = (
        "released_at_old_owner",
        "A producer or consumer of a topic that has another owner stopped counting.",
    )
    SUBSCRIPTION_LISTING_FAILED = (
        "subscription_listing_failed",
        "The admin API did not tell a topic's subscriptions.",
    )
    UNKNOWN_BROKER_REFUSED = (
        "unknown_broker_refused",
        "A lookup was refused, as its answer names a broker that is not known to the gateway, or cannot be "
        "read.",
    )
