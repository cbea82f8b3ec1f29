"""What a refused call is told: status code, text, and the details of Google's richer error model.

Codes: https://grpc.io/docs/guides/status-codes/; details: `google/rpc/error_details.proto`, which goes in the
trailer `grpc-status-details-bin` as a `google.rpc.Status`.
"""

from dataclasses import dataclass, replace

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status

from sluicegate.decisions.ids import with_id
from sluicegate.model import Action, Breakage, Decision, Outcome, Reason
from sluicegate_grpc.semantics.calls.attach_call import LostPlace

INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DOMAIN = "sluicegate"
"""Domain of the reasons in `google.rpc.ErrorInfo`."""
_BY_OUTCOME = {
    Outcome.LIMIT_REACHED: RESOURCE_EXHAUSTED,
    Outcome.INVALID: INVALID_ARGUMENT,
    Outcome.PRECONDITION: FAILED_PRECONDITION,
}
_BY_BREAKAGE = {Breakage.CONNECTION: UNAVAILABLE, Breakage.RESPONSE: INTERNAL}
"""What clients report themselves if a connection ends, or if a response cannot be parsed."""
_DETAILS = "grpc-status-details-bin"
_PUSHBACK = "grpc-retry-pushback-ms"
_NS_PER_MS = 1_000_000
_LEAST_RETRY_NS = _NS_PER_MS
"""Clients read a delay of 0 as leave to come back at once."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The end of a call."""

    code: int
    """gRPC status code."""
    text: str
    details: bytes = b""
    """A serialized `google.rpc.Status`; empty if there is nothing to add."""
    retry_ns: int = 0
    """When to try again; 0 if that is not known."""

    @property
    def trailers(self) -> tuple[tuple[str, str | bytes], ...]:
        """The metadata that ends the call, besides code and text.

        gRPC's own retry policy obeys `grpc-retry-pushback-ms` (gRFC A6); RetryInfo is for applications.
        """
        details: tuple[tuple[str, str | bytes], ...] = ((_DETAILS, self.details),) if self.details else ()
        return (*details, (_PUSHBACK, str(-(-self.retry_ns // _NS_PER_MS)))) if self.retry_ns else details


class RefusedError(Exception):
    """A call is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


def refusal(decision: Decision, topic: str) -> Refusal:
    """The end of a call that is refused.

    :param decision: the refusal, or what the call was held for until it could be held no longer.
    :param topic: the topic's full name.
    """
    code = NOT_FOUND if isinstance(decision, LostPlace) else _BY_OUTCOME[decision.reasons[0].outcome]
    if decision.breaks is not None:
        code = _BY_BREAKAGE[decision.breaks]
    text = with_id(decision.text, decision.id)
    status = Status(code=code, message=text)
    for reason in decision.reasons:
        status.details.add().Pack(_error_info(reason, decision, topic))
    retry_ns = 0
    if decision.delay_ns or decision.action is Action.DELAY:
        retry_ns = max(_LEAST_RETRY_NS, decision.delay_ns)
        wait = Duration()
        wait.FromNanoseconds(retry_ns)
        status.details.add().Pack(RetryInfo(retry_delay=wait))
    exhausted = [reason for reason in decision.reasons if reason.outcome is Outcome.LIMIT_REACHED]
    if exhausted:
        failure = QuotaFailure()
        for reason in exhausted:
            failure.violations.add(subject=f"topic:{topic}", description=reason.text)
        status.details.add().Pack(failure)
    return Refusal(code, text, status.SerializeToString(), retry_ns)


def unchanged(decision: Decision, topic: str, why: str) -> Refusal:
    """The end of a call whose headers a policy changes, and that cannot have others.

    :param decision: the rewrite.
    :param why: why it cannot.
    """
    first = decision.reasons[0]
    text = f"Headers of a message for topic {topic} cannot be changed: {why}. Policy {first.policy} needs to."
    return refusal(replace(decision, action=Action.REJECT, reasons=(replace(first, text=text),)), topic)


def malformed(method: str) -> Refusal:
    """The end of a call whose message cannot be read.

    :param method: its full name.
    """
    return Refusal(INVALID_ARGUMENT, f"Malformed message for {method}")


def too_late() -> Refusal:
    """The end of a call that was held until its client's deadline."""
    return Refusal(DEADLINE_EXCEEDED, "Deadline exceeded while the call was held by a policy")


def _error_info(reason: Reason, decision: Decision, topic: str) -> ErrorInfo:
    metadata = {
        "topic": topic,
        "policy": reason.policy,
        "limit": _number(reason.limit),
        "current": _number(reason.current),
        "level": reason.level,
        "decision_id": decision.id,
    }
    kept = {name: value for name, value in metadata.items() if value}
    return ErrorInfo(reason=reason.policy.upper() or "UNKNOWN_ID", domain=DOMAIN, metadata=kept)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
