"""What the room for Pulsar counts, and why it closes connections."""

from sluicegate.model import CloseReason, CountedEvent


class PulsarEvent(CountedEvent):
    """Events of `sluicegate_broker_events_total`."""

    ADDED_BYTES_REFUSED = (
        "added_bytes_refused",
        "The broker refused a message as too large with the delivery time that the gateway adds.",
    )
    CHUNK_BUFFER_FULL = (
        "chunk_buffer_full",
        "An incomplete chunked message was refused, as chunk_buffer has no room for it.",
    )
    CHUNKS_INCOMPLETE = (
        "chunks_incomplete",
        "An incomplete chunked message was refused, as its next chunk did not come within max_hold.",
    )
    CHUNKS_OUT_OF_ORDER = (
        "chunks_out_of_order",
        "Chunks of a message went to a consumer out of order, as earlier ones did not come in time or too "
        "many messages were incomplete.",
    )
    CONSUMER_OVERFULL = (
        "consumer_overfull",
        "The broker sent more than consumer_buffer takes, and the consumer was closed to reopen with fewer "
        "permits.",
    )
    DISPATCH_DROPPED = "dispatch_dropped", "A message of a non-persistent topic was dropped."
    FIXED_DELAY_REFUSED = (
        "fixed_delay_refused",
        "The broker refused a message, as its delay by policy is longer than the broker allows.",
    )
    PRODUCER_HOLD_TIMED_OUT = (
        "producer_hold_timed_out",
        "A new producer that limits held was refused after max_hold.",
    )
    PUBLISH_CHECKSUM_FAILED = (
        "publish_checksum_failed",
        "A message whose delivery time had to be rewritten was refused, as its checksum is wrong.",
    )
    PUBLISH_DISCARDED = (
        "publish_discarded",
        "A message of a producer that is to reopen was discarded; its client sends it again.",
    )
    PUBLISH_PRODUCER_CLOSED = (
        "publish_producer_closed",
        "A producer that sent more than publish_queue takes was closed, once it had its receipts.",
    )
    PUBLISH_QUEUE_FULL = "publish_queue_full", "A producer sent more than publish_queue takes."
    SEND_AFTER_CLOSE = (
        "send_after_close",
        "A message crossed the gateway's closing of its producer; its client sends it again.",
    )
    SUBSCRIBE_HOLD_TIMED_OUT = (
        "subscribe_hold_timed_out",
        "A new consumer that limits held was refused after max_hold.",
    )
    SUBSCRIPTION_LISTING_FAILED = (
        "subscription_listing_failed",
        "The admin API did not tell a topic's subscriptions.",
    )
    SUBSCRIPTION_LISTING_PUT_OFF = (
        "subscription_listing_put_off",
        "The admin API was not asked for a topic's subscriptions, as it gave no answer a moment ago.",
    )
    TOPIC_MIGRATION_WITHHELD = (
        "topic_migration_withheld",
        "The broker sent a client to another cluster, and the client was not told.",
    )
    UNKNOWN_ASSIGNMENT_WITHHELD = (
        "unknown_assignment_withheld",
        "The broker sent a command of a feature that the gateway does not offer, and it was withheld.",
    )
    UNKNOWN_BROKER_REFUSED = (
        "unknown_broker_refused",
        "A client or a lookup named a broker that is not known to the gateway (see known_brokers).",
    )
    UNREADABLE_MESSAGE_PASSED = (
        "unreadable_message_passed",
        "A message for a consumer could not be read and was passed on; limits do not count it.",
    )


class PulsarClose(CloseReason):
    """Reasons of `sluicegate_session_closes_total`."""

    ATTACHED_AFTER_CLOSE = (
        "attached_after_close",
        "The broker opened a producer or consumer that its client had closed before, and that passed no "
        "policy.",
    )
    MALFORMED_FRAME = "malformed_frame", "The client or the broker broke the protocol."
    SEND_WITHOUT_PRODUCER = (
        "send_without_producer",
        "The client sent a message for a producer that is not open.",
    )
    UNKNOWN_BROKER = (
        "unknown_broker",
        "The client asked for a broker that is not known to the gateway (see known_brokers).",
    )
