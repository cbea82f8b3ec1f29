"""aiokafka's exceptions for refusals."""

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, KafkaTimeoutError, for_code

from sluicegate.client.refused import RefusedError
from sluicegate_kafka.session.shared.refusals import produce_code


def publish_error(refused: RefusedError) -> KafkaError:
    """The exception of a message that is refused: the one that a broker's answer would give."""
    decision = refused.decision
    if refused.was_held:
        return KafkaTimeoutError(str(refused))
    error: KafkaError = for_code(produce_code(decision, messages=1))(str(refused))
    return error


def consume_error(refused: RefusedError) -> KafkaError:
    """The exception of a consumer that is refused."""
    return GroupAuthorizationFailedError(str(refused))
