"""What the server interceptors of both kinds share: the handlers that get policies."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import grpc

from sluicegate.model import ANONYMOUS
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.interceptors.policy_base import CallInfo, Lists, Policies
from sluicegate_grpc.semantics.calls import Caller
from sluicegate_grpc.semantics.fields import Missing, Values

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Read: TypeAlias = "tuple[Values | Missing, Any]"
Serialize: TypeAlias = Callable[[Any], bytes]


class ServerPolicies(Policies[CallInfo, Lists]):
    """The handlers of a server, with policies around those that policies ask about."""

    @cached_property
    def _wrapped(self) -> dict[str, tuple[object, Handler]]:
        """By method: its handler, and the one with policies around it."""
        return {}

    @staticmethod
    def default_principal(info: Any) -> str:
        """The principal of a connection: the common name of the client's certificate, if it showed one."""
        names = info.auth_context().get("x509_common_name")
        return str(names[0], errors="replace") if names else ANONYMOUS

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
        return self.caller_by(context, context.peer())

    def _stream_caller(self, context: Any) -> Caller:
        return self.stream_caller_by(context, context.peer())


def is_ok(context: Any) -> bool:
    """Whether a handler that has returned means success; it may have set another code."""
    code = context.code()
    return not code or code is grpc.StatusCode.OK


def _as_it_is(message: Any) -> Any:
    return message
