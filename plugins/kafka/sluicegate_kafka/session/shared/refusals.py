"""The Kafka error code for each refusal.

Measured with the Java client 4.4, librdkafka 2.11+ and aiokafka 0.14: 44 fails just that batch, idempotent
or not; 10 makes a client split a batch and send it again, so it is only for a batch that holds one record;
19 is retried until the producer's own delivery time-out; 81 ends a group member with its own exception.
aiokafka does not know 81 and says `UnknownError`; 30 ends its member with
an exception that names the group, in every client: it is for one that may never join.
"""

from sluicegate.model import Action, Decision, Outcome
from sluicegate_kafka.codec import errors


def produce_code(decision: Decision, messages: int) -> int:
    """The code for a refused topic of a Produce request.

    :param decision: the refusal.
    :param messages: records of that topic in the request.
    """
    reason = decision.reasons[0]
    if reason.outcome is Outcome.PRECONDITION:
        return errors.NOT_ENOUGH_REPLICAS
    if reason.policy == "max_message_size" and messages == 1:
        return errors.MESSAGE_TOO_LARGE
    if reason.policy == "max_timestamp_ahead":
        return errors.INVALID_TIMESTAMP
    return errors.POLICY_VIOLATION


def group_code(decision: Decision, software: str) -> int:
    """The code for a refused group member or subscription.

    :param decision: the refusal, or the delay that it was held for.
    :param software: the client library, by its own claim. One without a claim is aiokafka, or older than
        Kafka 2.4; most of those do not know 81.
    """
    if decision.action is Action.DELAY or decision.reasons[0].outcome is Outcome.PRECONDITION:
        return errors.COORDINATOR_LOAD_IN_PROGRESS
    if decision.reasons[0].outcome is Outcome.INVALID or not software:
        return errors.GROUP_AUTHORIZATION_FAILED
    return errors.GROUP_MAX_SIZE_REACHED
