"""Texts of refusals name the policy, the current value, the limit, the level and a remedy."""

from collections.abc import Callable

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


@pytest.mark.seed("S1-051")
def test_wording_of_size() -> None:
    assert texts.message_size("t", 11, 10).startswith(
        "Message size exceeds maximum allowed for topic t. Current: 11 bytes, Limit: 10 bytes."
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


@pytest.mark.parametrize(
    ("told", "remedy"),
    [
        (
            lambda: texts.subscriptions("t", 3, 2),
            "Delete subscriptions that are no longer used or increase max_subscriptions_per_topic policy.",
        ),
        (
            lambda: texts.subscriptions_unknown("t", 2),
            "Try again shortly, or set on_unknown.max_subscriptions_per_topic to 'open' or 'last'.",
        ),
        (
            lambda: texts.consumers_of_topic("t", 3, 2),
            "Wait for existing consumers to disconnect or increase max_consumers_per_topic policy.",
        ),
        (
            lambda: texts.consumers_of_subscription("t", "s", 3, 2),
            "Wait for existing consumers to disconnect or increase max_consumers_per_subscription policy.",
        ),
        (
            lambda: texts.message_size("t", 3, 2),
            "Send smaller messages or increase max_message_size policy.",
        ),
        (
            lambda: texts.unacked("t", "s", 3, 2),
            "Acknowledge messages or increase max_unacked_messages_per_consumer policy.",
        ),
        (
            lambda: texts.connection_rate("t", 3, 2),
            "Connect more slowly or increase connection_rate_limit policy.",
        ),
        (
            lambda: texts.timestamp_ahead("t", 3, 2),
            "Correct the producer's clock or increase max_timestamp_ahead policy.",
        ),
        (
            lambda: texts.check_failed("mine", "t"),
            "Try again later; the gateway's log names the plugin that failed.",
        ),
    ],
)
def test_the_remedy_is_the_last_sentence(told: Callable[[], str], remedy: str) -> None:
    assert told().endswith(f". {remedy}")


def test_a_batch_that_cannot_be_inspected_is_reported_with_the_reason() -> None:
    assert texts.unreadable("t", "they are cut off") == (
        "Compressed messages for topic t cannot be inspected: they are cut off. "
        "Send smaller batches, or whole ones that say what they hold."
    )
