"""What the server interceptors of both kinds share: whose a call is, and the handlers that get policies."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from sluicegate.model import MethodMap
from sluicegate_grpc.interceptors.enforcer import CallEnforcer, Engine, common_name
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.semantics.calls import Caller
from sluicegate_grpc.semantics.fields import Missing, Values

Context = TypeVar("Context")
Lists = TypeVar("Lists")
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Read: TypeAlias = "tuple[Values | Missing, Any]"
Serialize: TypeAlias = Callable[[Any], bytes]


def _principal(context: Any) -> str:
    return common_name(context.auth_context())


class ServerPolicies(Generic[Context, Lists]):
    """The handlers of a server, with policies around those that policies ask about.

    :param engine: decides, such as a `sluicegate.embedded.PolicyEngine`.
    :param methods: which method is which operation; others pass, and are counted.
    :param principal: gives the principal of a call; the client certificate's common name or ANONYMOUS if left
        out.
    :param ghost_release_s: after so long without a stream or a call, a producer or consumer does not count.
    :param list_subscriptions: tells which subscriptions a topic has, or None if that is not known now; if it
        is left out, those count that were made since the server started.
    :param services: descriptors that the map is checked with; others are taken from protobuf's default pool.
    :raises MethodMapError: if the map is not that of its services, or if some limit would not hold by it.
    """

    def __init__(
        self,
        engine: Engine,
        methods: MethodMap,
        *,
        principal: Callable[[Context], str] = _principal,
        ghost_release_s: float = 30,
        list_subscriptions: Lists | None = None,
        services: Sequence[ServiceDescriptor] = (),
    ) -> None:
        lists = list_subscriptions is not None
        self.enforcer = CallEnforcer(engine, methods, ghost_release_s, lists=lists, services=services)
        self._principal = principal
        self._lists = list_subscriptions
        self._wrapped: dict[str, tuple[object, Handler]] = {}
        self._streams = count(1)

    def _policed(self, handler: "Handler | None", name: str) -> "Handler | None":
        """The handler of a method, with the policies around it if they ask about the method.

        :raises ValueError: if the map gives the method a role that a method of its shape cannot have.
        """
        policed = self.enforcer.policed(name)
        if handler is None or policed is None:
            return handler
        known = self._wrapped.get(name)
        if known is None or known[0] is not handler:
            known = self._wrapped[name] = (handler, self._wrap(handler, policed))
        return known[1]

    def _wrap(self, handler: Any, policed: Policed) -> Handler:
        policed.check_shape(response_streaming=handler.response_streaming)
        deserialize = handler.request_deserializer or _as_it_is
        serialize = handler.response_serializer or _as_it_is

        def read(data: bytes) -> Read:
            return policed.read(data), deserialize(data)

        # One response is serialized by gRPC, those of a stream where they are decided.
        if handler.request_streaming and handler.response_streaming:
            call = self._stream_stream(handler.stream_stream, policed, serialize)
            return grpc.stream_stream_rpc_method_handler(call, read, None)
        if handler.request_streaming:
            call = self._stream_unary(handler.stream_unary, policed, serialize)
            return grpc.stream_unary_rpc_method_handler(call, read, handler.response_serializer)
        if handler.response_streaming:
            call = self._unary_stream(handler.unary_stream, policed, serialize)
            return grpc.unary_stream_rpc_method_handler(call, read, None)
        call = self._unary_unary(handler.unary_unary, policed, serialize)
        return grpc.unary_unary_rpc_method_handler(call, read, handler.response_serializer)

    @abstractmethod
    def _unary_unary(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any: ...

    @abstractmethod
    def _unary_stream(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any: ...

    @abstractmethod
    def _stream_unary(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any: ...

    @abstractmethod
    def _stream_stream(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any: ...

    def _caller(self, context: Any) -> Caller:
        return self.enforcer.caller(self._principal(context), context.peer())

    def _stream_caller(self, context: Any) -> Caller:
        """A caller that lives as long as its stream: its attachments are released with it."""
        client = f"{context.peer()} stream {next(self._streams)}"
        return self.enforcer.caller_of_its_own(self._principal(context), client)


def is_ok(context: Any) -> bool:
    """Whether a handler that has returned means success; it may have set another code."""
    code = context.code()
    return not code or code is grpc.StatusCode.OK


def _as_it_is(message: Any) -> Any:
    return message
