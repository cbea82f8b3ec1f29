"""The Python client's exceptions for refusals."""

from pulsar import exceptions

from sluicegate.client.refused import RefusedError
from sluicegate.model import Outcome

_SIZE = "max_message_size"
_DELAY = "max_delivery_delay"


def publish_error(refused: RefusedError) -> Exception:
    """The exception of a message or a producer that is refused."""
    reason = refused.decision.reasons[0]
    if refused.was_held:
        kind = exceptions.Timeout
    elif reason.policy == _SIZE:
        kind = exceptions.MessageTooBig
    elif reason.policy == _DELAY:
        kind = exceptions.NotAllowedError
    elif reason.outcome is Outcome.PRECONDITION:
        kind = exceptions.ProducerBlockedQuotaExceededException
    else:
        kind = exceptions.ProducerBusy
    error: Exception = kind(str(refused))
    return error


def consume_error(refused: RefusedError) -> Exception:
    """The exception of a consumer that is refused."""
    error: Exception = exceptions.ConsumerBusy(str(refused))
    return error
