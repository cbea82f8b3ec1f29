"""confluent-kafka's exceptions for refusals."""

from confluent_kafka import KafkaError, KafkaException

from sluicegate.client.refused import RefusedError
from sluicegate_kafka.codec.errors import GROUP_AUTHORIZATION_FAILED
from sluicegate_kafka.session.shared.refusals import produce_code


def publish_error(refused: RefusedError) -> KafkaException:
    """The exception of a message that is refused, with the code that a broker's answer would have."""
    code = KafkaError._MSG_TIMED_OUT if refused.was_held else produce_code(refused.decision, messages=1)  # noqa: SLF001
    return KafkaException(KafkaError(code, str(refused)))


def consume_error(refused: RefusedError) -> KafkaException:
    """The exception of a consumer that is refused."""
    return KafkaException(KafkaError(GROUP_AUTHORIZATION_FAILED, str(refused), fatal=True))
