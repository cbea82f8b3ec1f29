"""What the room for Kafka counts, and why it closes connections."""

from sluicegate.model import CloseReason, CountedEvent


class KafkaEvent(CountedEvent):
    """Events of `sluicegate_broker_events_total`."""

    ASSIGNED_TOPIC_UNKNOWN = (
        "assigned_topic_unknown",
        "A member was assigned a topic that the broker does not name to it: deleted, or hidden from it.",
    )
    COMMIT_HOLD_TIMED_OUT = (
        "commit_hold_timed_out",
        "A commit that limits held was refused after max_hold.",
    )
    FETCH_GROUP_AMBIGUOUS = (
        "fetch_group_ambiguous",
        "A topic in a Fetch response was limited by several subscriptions, as nothing tells which one it is "
        "for.",
    )
    GROUP_LISTING_FAILED = "group_listing_failed", "The broker did not tell which groups exist."
    GROUP_LISTING_PUT_OFF = (
        "group_listing_put_off",
        "The broker was not asked which groups exist, as it did not tell a moment ago.",
    )
    INSPECTION_FAILED = (
        "inspection_failed",
        "A Produce request was answered with a code that is retried, as its batches could not be unpacked or "
        "buffered at that moment.",
    )
    JOIN_HOLD_TIMED_OUT = "join_hold_timed_out", "A join that limits held was refused after max_hold."
    PRODUCE_BACK_DATED = (
        "produce_back_dated",
        "A batch for a topic with a fixed delay had a time stamp that lies too far before its arrival.",
    )
    PRODUCE_DROPPED_ACKS_0 = (
        "produce_dropped_acks_0",
        "A topic's batches of a request with acks=0 were discarded, as nobody waits for an error.",
    )
    PRODUCE_HELD_OR_REFUSED = (
        "produce_held_or_refused",
        "A Produce request for one topic was held or refused.",
    )
    PRODUCE_HOLD_TIMED_OUT = (
        "produce_hold_timed_out",
        "Topics of a Produce request that limits held were refused after max_hold.",
    )
    PRODUCE_INSPECTED = "produce_inspected", "Compressed batches of a Produce request were unpacked."
    PRODUCE_NOT_HELD_FOR_BUDGET = (
        "produce_not_held_for_budget",
        "Topics of a Produce request were refused instead of held, as buffer_budget was used up.",
    )
    PRODUCE_SPLIT = (
        "produce_split",
        "A Produce request for several topics was decided topic by topic, as some were held or refused.",
    )
    REQUESTS_IN_FLIGHT_FULL = (
        "requests_in_flight_full",
        "A connection had max_requests_in_flight requests without a response, and was not read from until "
        "half of them were answered.",
    )
    UNKNOWN_API_PASSED = "unknown_api_passed", "A request with an unknown API key was passed on."
    UNSUPPORTED_VERSION_REFUSED = (
        "unsupported_version_refused",
        "A request that policies ask about had a version that the gateway does not read.",
    )


class KafkaClose(CloseReason):
    """Reasons of `sluicegate_session_closes_total`."""

    MALFORMED_REQUEST = (
        "malformed_request",
        "The client sent a request that breaks the protocol, or has more entries than the gateway takes.",
    )
    MALFORMED_RESPONSE = "malformed_response", "The broker sent a response that breaks the protocol."
    REQUEST_TOO_LARGE = (
        "request_too_large",
        "The client sent a request over max_frame_bytes, or over request_bytes of its API.",
    )
