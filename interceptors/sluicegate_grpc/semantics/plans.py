"""How the messages of a method are read: what of them, as one message or as a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sluicegate.model.methods import Method, Path, Role
from sluicegate_grpc.semantics.content_plan import ContentPlan
from sluicegate_grpc.semantics.fields import (
    IN_RESPONSE,
    KINDS,
    LENGTH,
    MAX_FIELDS,
    Data,
    Missing,
    Plan,
    Values,
    occurrences,
)


class _WholePlan(Plan):
    """A plan whose messages count with all of their bytes, not with those of their payload."""

    __slots__ = ()

    def read(
        self, data: Data, start: int, stop: int, end: int | None = None, left: int = MAX_FIELDS
    ) -> Values | Missing:
        """As `Plan.read`."""
        values = super().read(data, start, stop, end, left)
        if isinstance(values, Values):
            values.payload = (stop if end is None else end) - start
        return values


class _BatchPlan(Plan):
    """A plan for requests that contain several messages; it reads them once the request is complete.

    :param paths: as for `Plan`, of what stands beside the messages.
    :param number: of the repeated field whose messages they are.
    :param message: reads one of them.
    :param id_bits: how wide ids are.
    """

    __slots__ = ("_message", "_tag")

    def __init__(self, paths: Mapping[str, Path], number: int, message: Plan, id_bits: int) -> None:
        super().__init__(paths, id_bits)
        self._tag = number << 3 | LENGTH
        self._message = message

    def read(
        self, data: Data, start: int, stop: int, end: int | None = None, left: int = MAX_FIELDS
    ) -> Values | Missing:
        """As `Plan.read`; MORE for a message that is not all there."""
        if end is not None and stop < end:
            return Missing.MORE
        values = super().read(data, start, stop, None, left)
        if isinstance(values, Missing):
            return values
        values.messages = values.payload = 0
        for begin, after in occurrences(data, start, stop, self._tag):
            message = self._message.read(data, begin, after, None, values.left)
            if isinstance(message, Missing):
                return message
            values.left = message.left
            values.messages += 1
            values.payload += message.payload
            values.largest = max(values.largest, message.payload)
        return values


def plan(method: Method, *, named: bool = False) -> Plan:
    """How to read a method's requests.

    :param named: whether to look for the producer's name too, which few messages are asked for.
    """
    elsewhere = IN_RESPONSE.get(method.role, frozenset())
    paths: dict[str, Path] = {name: getattr(method, name) for name in KINDS if name not in elsewhere}
    if not named:
        del paths["name"]
    counts_whole = method.role is Role.PUBLISH and method.size_of == "message"
    payload = paths.pop("payload", ()) if counts_whole or method.batch else ()
    if not method.batch:
        return (_WholePlan if counts_whole else Plan)(paths, method.id_bits)
    message = _WholePlan({}) if counts_whole else Plan({"payload": payload[1:]})
    return _BatchPlan(paths, method.batch[0], message, method.id_bits)


def response_plan(method: Method) -> Plan:
    """How to read a method's responses."""
    paths: dict[str, Path] = {
        name: getattr(method, name)
        for name in IN_RESPONSE.get(method.role, frozenset())
        if not name.startswith("message_")
    }
    if method.role is Role.DISPATCH and method.size_of == "message":
        del paths["payload"]
        return _WholePlan(paths, method.id_bits)
    return Plan(paths, method.id_bits)


def identity_plan(method: Method) -> Plan:
    """How to read the topic and the subscription of a delivered message."""
    return Plan({"topic": method.message_topic, "subscription": method.message_subscription})


@dataclass(frozen=True, slots=True)
class Plans:
    """How the messages of one method are read."""

    request: Plan
    named: Plan
    """For requests of producers whose id is not known, but that may tell their name."""
    response: Plan
    timeless: Plan
    """For responses if it does not matter when they were published."""
    sizes: Plan
    """For responses of which only the size matters."""
    identity: Plan
    """For the first message to a consumer whose id is not known."""
    contents: ContentPlan
    """For the messages of requests, if policies read them."""

    @classmethod
    def of(cls, method: Method) -> "Plans":
        """How a method's requests and responses are read."""
        timeless = replace(method, published=())
        return cls(
            plan(method),
            plan(method, named=True),
            response_plan(method),
            response_plan(timeless),
            response_plan(replace(timeless, position=())),
            identity_plan(method),
            ContentPlan(method),
        )
