"""A policed method, and the messages of its calls."""

from collections.abc import Collection
from typing import Any

from sluicegate.model import HeaderChange, Method, Part, Role
from sluicegate_grpc.checking import wrong_shape
from sluicegate_grpc.semantics.content_plan import CannotChangeError, ContentPlan, Contents
from sluicegate_grpc.semantics.fields import Missing, Plan, Values
from sluicegate_grpc.semantics.plans import plan, response_plan


class Policed:
    """A policed method."""

    __slots__ = ("_contents", "attaches", "is_read", "method", "name", "request", "response")

    def __init__(self, name: str, method: Method) -> None:
        self.name = name
        self.method = method
        self.attaches = method.role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE)
        """Whether a producer or consumer attaches by it."""
        self.request = plan(method, named=True)
        self.response: Plan = response_plan(method)
        self._contents = ContentPlan(method)
        self.is_read = False
        """Whether a policy has read its messages: then it is likely to read the next one as well."""

    def read(self, data: bytes) -> Values | Missing:
        """The values of a request."""
        values = self.request.read(data, 0, len(data))
        if isinstance(values, Values) and values.name is None:
            values.name = ""  # it was looked for
        return values

    def read_sent(self, message: Any) -> Values | Missing:
        """The values of a request that a client sends; None instead of it if its stream has none."""
        return Missing.MORE if message is None else self.read(encoded(message))

    def read_response(self, data: bytes) -> Values | Missing:
        """The values of a response."""
        return self.response.read(data, 0, len(data))

    def read_contents(self, message: Any, parts: Collection[Part]) -> Contents:
        """What policies want to know of the messages in a request.

        :param message: the request, as a handler or the channel gets it.
        """
        try:
            return self._contents.read(encoded(message), parts)
        except TypeError as error:
            return Contents([], str(error))

    def changed(self, message: Any, change: HeaderChange) -> Any:
        """A request with other headers; one of the same type, or bytes.

        :raises CannotChangeError: if that cannot be.
        """
        if isinstance(message, bytes):
            return self._contents.changed(message, change)
        decode = getattr(type(message), "FromString", None)
        if decode is None:
            raise CannotChangeError(f"{type(message).__name__} is no class of protobuf messages")
        return decode(self._contents.changed(encoded(message), change))

    def check_shape(self, *, response_streaming: bool) -> None:
        """Check that a method of this shape can have the map's role.

        :raises ValueError: if not.
        """
        if mistake := wrong_shape(self.method.role, response_streaming=response_streaming):
            raise ValueError(f"{self.name} {mistake}")


def encoded(message: Any) -> bytes:
    """The bytes of a message that a client sends or has received.

    :param message: a protobuf message, or bytes where a client encodes by itself.
    :raises TypeError: if it is neither.
    """
    if isinstance(message, bytes):
        return message
    encode = getattr(message, "SerializeToString", None)
    if encode is None:
        raise TypeError(f"expected a protobuf message or bytes, got {type(message).__name__}")
    data: bytes = encode()
    return data
