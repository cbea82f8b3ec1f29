"""What clients are told names the limit, the current value, the limit's value, the place and a remedy."""

import pytest

from sluicegate.engine import texts

TOPIC = "/namespace/topic-name"


@pytest.mark.seed("S1-104")
def test_the_seeds_template_word_for_word() -> None:
    assert texts.producers(TOPIC, 10, 10) == (
        "Producer limit reached for topic /namespace/topic-name. Current: 10, Limit: 10. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy."
    )


@pytest.mark.seed("S1-105")
@pytest.mark.parametrize(
    ("text", "start"),
    [
        (texts.producers("t", 3, 2), "Producer limit reached for topic t. Current: 3, Limit: 2"),
        (texts.subscriptions("t", 3, 2), "Subscription limit reached for topic t. Current: 3, Limit: 2"),
        (
            texts.consumers_of_subscription("t", "s", 3, 2),
            "Consumer limit per subscription reached on topic t subscription s. Current: 3, Limit: 2",
        ),
        (texts.consumers_of_topic("t", 3, 2), "Consumer limit per topic reached for t. Current: 3, Limit: 2"),
    ],
)
def test_wording_of_counts_is_the_brokers_own(text: str, start: str) -> None:
    assert text.startswith(start)


@pytest.mark.seed("S1-051", "S1-062")
def test_wording_of_size_and_rate() -> None:
    size = texts.message_size("t", 11, 10)
    rate = texts.rate("Publish", "topic t", 512.5, 500, "messages/s", "max_publish_rate")

    assert size.startswith(
        "Message size exceeds maximum allowed for topic t. Current: 11 bytes, Limit: 10 bytes."
    )
    assert rate.startswith(
        "Publish rate limit exceeded for topic t. Current: 512 messages/s, Limit: 500 messages/s."
    )


@pytest.mark.seed("S1-103")
@pytest.mark.parametrize(
    ("text", "policy", "limit"),
    [
        (texts.producers("t", 3, 2), "max_producers_per_topic", "Limit: 2."),
        (texts.subscriptions("t", 3, 2), "max_subscriptions_per_topic", "Limit: 2."),
        (texts.subscriptions_unknown("t", 2), "max_subscriptions_per_topic", "Limit: 2."),
        (texts.consumers_of_topic("t", 3, 2), "max_consumers_per_topic", "Limit: 2."),
        (texts.consumers_of_subscription("t", "s", 3, 2), "max_consumers_per_subscription", "Limit: 2."),
        (texts.message_size("t", 3, 2), "max_message_size", "Limit: 2 bytes."),
        (
            texts.rate("Publish", "topic t", 3, 2.5, "bytes/s", "max_publish_rate_bytes"),
            "_bytes",
            "Limit: 2.5 ",
        ),
        (texts.unacked("t", "s", 3, 2), "max_unacked_messages_per_consumer", "Limit: 2."),
        (texts.connection_rate("t", 3, 2), "connection_rate_limit", "Limit: 2 attachments/s."),
        (texts.timestamp_ahead("t", 3, 2), "max_timestamp_ahead", "Limit: 2 ms."),
    ],
)
def test_every_text_names_current_limit_place_and_remedy(text: str, policy: str, limit: str) -> None:
    assert policy in text
    assert limit in text
    assert "Current: " in text
    assert " t" in text
