"""The Pulsar error code and text for each refusal.

Client libraries react differently to the code of a SEND_ERROR. Measured with every third message refused:
the C++ client (the base of Python's and Node.js's) fails just that message on 9 and reconnects forever on
22; Java does so on 22, and sends again on 9 until the message times out. All other codes fail all pending
messages or lead to a loop. 22 is what brokers answer to a delay that is too long, so it is the code for
libraries that were not measured: Rust and .NET match errors to messages; Go gives up the whole producer on
22, and reconnects on any other.
"""

from sluicegate.decisions.ids import with_id
from sluicegate.model import Action, Decision, Outcome
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError

_CPP = "Pulsar-CPP"
PRODUCERS = "max_producers_per_topic"
SIZE = "max_message_size"
_BY_OUTCOME = {
    Outcome.LIMIT_REACHED: ServerError.PRODUCER_BUSY,
    Outcome.INVALID: ServerError.NOT_ALLOWED_ERROR,
    Outcome.PRECONDITION: ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION,
}
_CONSUMING = {
    "max_subscriptions_per_topic": (
        ServerError.NOT_ALLOWED_ERROR,
        "Exceed the maximum number of subscriptions of the topic: {topic}",
    ),
    "max_consumers_per_topic": (ServerError.CONSUMER_BUSY, "Topic reached max consumers limit"),
    "max_consumers_per_subscription": (ServerError.CONSUMER_BUSY, "Subscription reached max consumers limit"),
}
"""Brokers' own codes and words, for the limits that they have too."""


def is_cpp(client_version: str) -> bool:
    """Whether a client is the C++ library or based on it.

    :param client_version: as the client claims; before 3.0 that is a bare number, for any library.
    """
    return client_version.startswith(_CPP)


def send_code(client_version: str) -> ServerError:
    """The code for a refused SEND, by which only that message fails."""
    return ServerError.CHECKSUM_ERROR if is_cpp(client_version) else ServerError.NOT_ALLOWED_ERROR


def send_text(decision: Decision) -> str:
    """The text for a refused SEND: Pulsar's own where it has that policy."""
    text = "Exceed maximum message size" if decision.reasons[0].policy == SIZE else decision.text
    return with_id(text, decision.id)


def producer_refusal(decision: Decision, topic: str) -> tuple[ServerError, str]:
    """Code and text for a refused producer.

    :param decision: the refusal, or the delay that it was held for.
    :param topic: full name.
    """
    reason = decision.reasons[0]
    text = reason.text
    if reason.policy == PRODUCERS:
        text = f"Topic '{topic}' reached max producers limit"
    if decision.action is Action.DELAY:
        return ServerError.SERVICE_NOT_READY, with_id(text, decision.id)
    return _BY_OUTCOME[reason.outcome], with_id(text, decision.id)


def consumer_refusal(decision: Decision, topic: str) -> tuple[ServerError, str]:
    """Code and text for a refused consumer or subscription.

    :param decision: the refusal, or the delay that it was held for.
    :param topic: full name.
    """
    reason = decision.reasons[0]
    if decision.action is Action.DELAY or reason.outcome is Outcome.PRECONDITION:
        return ServerError.SERVICE_NOT_READY, with_id(reason.text, decision.id)
    native = _CONSUMING.get(reason.policy)
    if native is None:
        return ServerError.NOT_ALLOWED_ERROR, with_id(reason.text, decision.id)
    return native[0], with_id(native[1].format(topic=topic), decision.id)
