"""The Python client's exceptions for refusals."""

from pulsar import Result, exceptions
from pulsar.asyncio import PulsarException

from sluicegate.client.refused import RefusedError
from sluicegate.model import Outcome

_SIZE = "max_message_size"
_NOT_ALLOWED = frozenset({"max_delivery_delay", "read_only", "write_only", "client_id_pattern"})
_TOO_LATE = "Timeout"
_CONSUMING = frozenset(
    {"max_subscriptions_per_topic", "max_consumers_per_topic", "max_consumers_per_subscription"}
)


def kind_of(refused: RefusedError) -> str:
    """The library's name for a refusal, of its exceptions and of its results alike."""
    reason = refused.decision.reasons[0]
    if refused.was_held:
        return _TOO_LATE
    if reason.policy == _SIZE:
        return "MessageTooBig"
    if reason.policy in _NOT_ALLOWED:
        return "NotAllowedError"
    if reason.policy in _CONSUMING:
        return "ConsumerBusy"
    if reason.outcome is Outcome.PRECONDITION:
        return "ProducerBlockedQuotaExceededException"
    return "ProducerBusy"


def error(refused: RefusedError) -> Exception:
    """The exception of a refusal."""
    made: Exception = getattr(exceptions, kind_of(refused))(str(refused))
    return made


def aio_error(refused: RefusedError) -> PulsarException:
    """The exception of a refusal in `pulsar.asyncio`."""
    return PulsarException(getattr(Result, kind_of(refused)), str(refused))
