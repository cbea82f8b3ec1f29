"""The server interceptor for gRPC's server with threads. A call that is held keeps its thread."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from sluicegate.model import MethodMap, Role
from sluicegate_grpc.interceptors.codes import CODES, DETAILS
from sluicegate_grpc.interceptors.enforcer import Attachment, CallEnforcer, Engine, RefusedError, common_name
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.interceptors.sync.call_waits import (
    EndedError,
    ListSubscriptions,
    Paced,
    Patience,
    finish,
)
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.fields import Missing, Values
from sluicegate_grpc.semantics.status import Refusal

Context: TypeAlias = grpc.ServicerContext
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Read: TypeAlias = "tuple[Values | Missing, Any]"


def _principal(context: Context) -> str:
    return common_name(context.auth_context())


class PolicyServerInterceptor(grpc.ServerInterceptor):
    """Applies policies to the calls of a server: `grpc.server(..., interceptors=[...])`.

    :param engine: decides, such as a `sluicegate.embedded.PolicyEngine`.
    :param methods: which method is which operation; others pass, and are counted.
    :param principal: says whose a call is; the client certificate's common name or ANONYMOUS if left out.
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
        list_subscriptions: ListSubscriptions | None = None,
        services: Sequence[ServiceDescriptor] = (),
    ) -> None:
        lists = list_subscriptions is not None
        self.enforcer = CallEnforcer(engine, methods, ghost_release_s, lists=lists, services=services)
        self._principal = principal
        self._lists = list_subscriptions
        self._wrapped: dict[str, tuple[object, Handler]] = {}
        self._streams = count(1)

    def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Handler | None]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Give the handler of a call, with the policies around it.

        :raises ValueError: if the map gives its method a role that a method of its shape cannot have.
        """
        handler = continuation(handler_call_details)
        policed = self.enforcer.policed(handler_call_details.method)
        if handler is None or policed is None:
            return handler
        known = self._wrapped.get(policed.name)
        if known is None or known[0] is not handler:
            known = self._wrapped[policed.name] = (handler, self._wrap(handler, policed))
        return known[1]

    def _wrap(self, handler: Any, policed: Policed) -> Handler:
        policed.check_shape(response_streaming=handler.response_streaming)
        deserialize = handler.request_deserializer or _as_it_is
        serialize = handler.response_serializer or _as_it_is

        def read(data: bytes) -> Read:
            return policed.read(data), deserialize(data)

        if handler.request_streaming and handler.response_streaming:
            call = self._stream_stream(handler.stream_stream, policed, serialize)
            return grpc.stream_stream_rpc_method_handler(call, read, None)
        if handler.request_streaming:
            call = self._stream_unary(handler.stream_unary, policed, serialize)
            return grpc.stream_unary_rpc_method_handler(call, read, None)
        if handler.response_streaming:
            call = self._unary_stream(handler.unary_stream, policed, serialize)
            return grpc.unary_stream_rpc_method_handler(call, read, None)
        call = self._unary_unary(handler.unary_unary, policed, serialize)
        return grpc.unary_unary_rpc_method_handler(call, read, None)

    def _caller(self, context: Context) -> Caller:
        return self.enforcer.caller(self._principal(context), context.peer())

    def _stream_caller(self, context: Context) -> Caller:
        """One that goes with its stream: what only it attached is released then."""
        client = f"{context.peer()} stream {next(self._streams)}"
        return self.enforcer.caller_of_its_own(self._principal(context), client)

    # -- the four kinds of calls ----------------------------------------------------------------------

    def _unary_unary(self, behavior: Any, policed: Policed, serialize: Callable[[Any], bytes]) -> Any:
        def publish(request: Read, context: Context) -> bytes:
            caller = self._caller(context)
            self._police(policed, request[0], caller, context)
            producer = self.enforcer.unproven(policed, request[0], caller)
            if producer is None:
                return serialize(behavior(request[1], context))
            with self._proving(producer, context):
                return serialize(behavior(request[1], context))

        def attach(request: Read, context: Context) -> bytes:
            respond = partial(behavior, request[1], context)
            return self._attach(policed, request[0], context, serialize, respond)

        def note(request: Read, context: Context) -> bytes:
            caller = self._caller(context)
            self._police(policed, request[0], caller, context)
            response = serialize(behavior(request[1], context))
            if policed.method.role is Role.DETACH and _is_ok(context):
                self.enforcer.left(policed, request[0], caller)
            return response

        if policed.method.role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE):
            return attach
        return publish if policed.method.role is Role.PUBLISH else note

    def _unary_stream(self, behavior: Any, policed: Policed, serialize: Callable[[Any], bytes]) -> Any:
        def call(request: Read, context: Context) -> Iterator[bytes]:
            respond = partial(behavior, request[1], context)
            if policed.method.role is Role.DISPATCH:
                return self._deliver(policed, request[0], context, serialize, respond)
            caller = self._caller(context)
            self._police(policed, request[0], caller, context)
            producer = self.enforcer.unproven(policed, request[0], caller)
            if producer is not None:  # the response may not have been iterated
                context.add_callback(partial(self.enforcer.proved, producer, is_known=False))
            return self._responses(respond, serialize, producer, context)

        return call

    def _responses(
        self,
        respond: Callable[[], Iterable[Any]],
        serialize: Callable[[Any], bytes],
        producer: Id | None,
        context: Context,
    ) -> Iterator[bytes]:
        with self._proving(producer, context):
            yield from map(serialize, respond())

    def _stream_stream(self, behavior: Any, policed: Policed, serialize: Callable[[Any], bytes]) -> Any:
        def call(reads: Iterator[Read], context: Context) -> Iterator[bytes]:
            if policed.method.role is Role.DISPATCH:
                values, requests = _first(reads)
                respond = partial(behavior, requests, context)
                return self._deliver(policed, values, context, serialize, respond)
            requests = self._policed_requests(policed, reads, context)
            return map(serialize, behavior(requests, context))

        return call

    def _stream_unary(self, behavior: Any, policed: Policed, serialize: Callable[[Any], bytes]) -> Any:
        def call(reads: Iterator[Read], context: Context) -> bytes:
            if policed.method.role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE):
                values, requests = _first(reads)
                respond = partial(behavior, requests, context)
                return self._attach(policed, values, context, serialize, respond)
            return serialize(behavior(self._policed_requests(policed, reads, context), context))

        return call

    # -- what they share ------------------------------------------------------------------------------

    def _police(self, policed: Policed, values: Values | Missing, caller: Caller, context: Context) -> None:
        """Let a message of a publisher pass, or take notice of another; a refused one ends the call."""
        try:
            if policed.method.role is not Role.PUBLISH:
                self.enforcer.note(policed, values, caller)
            elif (waiting := self.enforcer.publish(policed, values, caller)) is not None:
                finish(waiting, Patience(context.add_callback))
        except (RefusedError, EndedError) as error:
            _end(context, error)

    @contextmanager
    def _proving(self, producer: Id | None, context: Context) -> Iterator[None]:
        """Run a handler that tells whether it knows a producer, which counts by its own word."""
        is_known = False
        try:
            yield
            is_known = _is_ok(context)
        finally:
            self.enforcer.proved(producer, is_known=is_known)

    def _policed_requests(self, policed: Policed, reads: Iterator[Read], context: Context) -> Iterator[Any]:
        caller = self._stream_caller(context)
        if not context.add_callback(lambda: self.enforcer.gone(caller)):
            return
        for values, request in reads:
            self._police(policed, values, caller, context)
            yield request

    def _attach(
        self,
        policed: Policed,
        values: Values | Missing,
        context: Context,
        serialize: Callable[[Any], bytes],
        respond: Callable[[], Any],
    ) -> bytes:
        """Run a handler by which a producer or consumer attaches."""
        try:
            waiting = self.enforcer.attach(policed, values, self._caller(context))
            attachment: Attachment = finish(waiting, Patience(context.add_callback), self._lists)
        except (RefusedError, EndedError) as error:
            _end(context, error)
        try:
            response = serialize(respond())
            # Handlers are not stopped when their call is cancelled, so whether the client waits is asked.
            if _is_ok(context) and context.is_active():
                attachment.answered(response)
            return response
        finally:
            attachment.failed()

    def _deliver(
        self,
        policed: Policed,
        values: Values | Missing,
        context: Context,
        serialize: Callable[[Any], bytes],
        respond: Callable[[], Iterable[Any]],
    ) -> Iterator[bytes]:
        """Run a handler whose responses are messages to a consumer."""
        patience = Patience(context.add_callback)
        try:
            waiting = self.enforcer.open(policed, values, self._caller(context))
            delivery = finish(waiting, patience, self._lists)
        except (RefusedError, EndedError) as error:
            _end(context, error)
        paced = Paced(delivery, patience)
        gone = True
        try:
            # It is told by the callback of a cancelled call: the server does not close its iterators.
            if context.add_callback(paced.close):
                for response in respond():
                    data = serialize(response)
                    if paced.passes(data):
                        yield data
                gone = False
        except EndedError:
            return
        finally:
            paced.close(gone=gone)


def _first(reads: Iterator[Read]) -> tuple[Values | Missing, Iterator[Any]]:
    """The values of the first request of a stream, and all requests."""
    none: Read = (Missing.MORE, None)
    first = next(reads, none)
    rest = (request for _, request in reads)
    return first[0], rest if first is none else chain((first[1],), rest)


def _end(context: Context, error: RefusedError | EndedError) -> NoReturn:
    """End a call, with the details where clients of the richer error model look for them."""
    refusal = error.refusal if isinstance(error, RefusedError) else Refusal(1, "Cancelled", b"")
    if refusal.details:
        context.set_trailing_metadata(((DETAILS, refusal.details),))
    context.abort(CODES[refusal.code], refusal.text)
    raise AssertionError("abort returned")


def _is_ok(context: Context) -> bool:
    """Whether a handler that has returned means success; it may have set another code."""
    code = context.code()  # type: ignore[attr-defined]  # types-grpcio lacks it
    return code is None or code is grpc.StatusCode.OK


def _as_it_is(message: Any) -> Any:
    return message
