"""The server interceptor for gRPC's server with threads. A call that is held keeps its thread."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import grpc

from sluicegate.model import Role
from sluicegate_grpc.interceptors.codes import CODES
from sluicegate_grpc.interceptors.enforcer import Attachment
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.interceptors.server_side import Handler, Read, Serialize, ServerPolicies, is_ok
from sluicegate_grpc.interceptors.sync.call_waits import (
    EndedError,
    ListSubscriptions,
    Paced,
    Patience,
    finish,
)
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.fields import Missing, Values
from sluicegate_grpc.semantics.status import Refusal, RefusedError

Context: TypeAlias = grpc.ServicerContext


class PolicyServerInterceptor(ServerPolicies[Context, ListSubscriptions], grpc.ServerInterceptor):
    """Applies policies to the calls of a server: `grpc.server(..., interceptors=[...])`.

    Its parameters are those of `Policies`.
    """

    def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Handler | None]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Give the handler of a call, with the policies around it.

        :raises ValueError: if the map gives its method a role that a method of its shape cannot have.
        """
        return self._policed(continuation(handler_call_details), handler_call_details.method)

    # -- the four kinds of calls ----------------------------------------------------------------------

    def _unary_unary(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        def call(request: Read, context: Context) -> Any:
            values, message = request
            if policed.attaches:
                with self._attaching(policed, values, context, serialize) as attached:
                    return attached(behavior(message, context))
            caller = self._caller(context)
            message = self._police(policed, values, message, caller, context)
            producer = self.enforcer.unconfirmed(policed, values, caller)
            if producer is not None:
                with self._proving(producer, context):
                    return behavior(message, context)
            response = behavior(message, context)
            if policed.method.role is Role.DETACH and is_ok(context):
                self.enforcer.left(policed, values, caller)
            return response

        return call

    def _unary_stream(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        def call(request: Read, context: Context) -> Iterator[bytes]:
            values, message = request
            if policed.method.role is Role.DISPATCH:
                respond = partial(behavior, message, context)
                return self._deliver(policed, values, context, serialize, respond)
            caller = self._caller(context)
            respond = partial(behavior, self._police(policed, values, message, caller, context), context)
            producer = self.enforcer.unconfirmed(policed, values, caller)
            if producer is not None:  # the response may not have been iterated
                context.add_callback(partial(self.enforcer.publish_resolved, producer, is_known=False))
            return self._responses(respond, serialize, producer, context)

        return call

    def _responses(
        self,
        respond: Callable[[], Iterable[Any]],
        serialize: Serialize,
        producer: Id | None,
        context: Context,
    ) -> Iterator[bytes]:
        with self._proving(producer, context):
            yield from map(serialize, respond())

    def _stream_stream(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        def call(reads: Iterator[Read], context: Context) -> Iterator[bytes]:
            if policed.method.role is Role.DISPATCH:
                values, requests = _first(reads)
                respond = partial(behavior, requests, context)
                return self._deliver(policed, values, context, serialize, respond)
            requests = self._policed_requests(policed, reads, context)
            return map(serialize, behavior(requests, context))

        return call

    def _stream_unary(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        def call(reads: Iterator[Read], context: Context) -> Any:
            if policed.attaches:
                values, requests = _first(reads)
                with self._attaching(policed, values, context, serialize) as attached:
                    return attached(behavior(requests, context))
            return behavior(self._policed_requests(policed, reads, context), context)

        return call

    # -- what they share ------------------------------------------------------------------------------

    def _police(
        self, policed: Policed, values: Values | Missing, message: Any, caller: Caller, context: Context
    ) -> Any:
        """Let a message of a publisher pass, or record another; a refused one ends the call.

        :return: the message to proceed with.
        """
        try:
            waiting = self.enforcer.police(policed, values, message, caller)
            return message if waiting is None else finish(waiting, Patience(context.add_callback))
        except (RefusedError, EndedError) as error:
            _end(context, error)

    @contextmanager
    def _proving(self, producer: Id | None, context: Context) -> Iterator[None]:
        """Run a handler whose response confirms an unconfirmed producer."""
        is_known = False
        try:
            yield
            is_known = is_ok(context)
        finally:
            self.enforcer.publish_resolved(producer, is_known=is_known)

    def _policed_requests(self, policed: Policed, reads: Iterator[Read], context: Context) -> Iterator[Any]:
        caller = self._stream_caller(context)
        if not context.add_callback(lambda: self.enforcer.stream_ended(caller)):
            return
        for values, request in reads:
            yield self._police(policed, values, request, caller, context)

    @contextmanager
    def _attaching(
        self, policed: Policed, values: Values | Missing, context: Context, serialize: Serialize
    ) -> Iterator[Callable[[Any], Any]]:
        """Admit a producer or consumer; its handler runs within the block, and hands its response over."""
        try:
            waiting = self.enforcer.attach(policed, values, self._caller(context))
            attachment: Attachment = finish(waiting, Patience(context.add_callback), self.lists)
        except (RefusedError, EndedError) as error:
            _end(context, error)

        def attached(response: Any) -> Any:
            # Handlers continue when their call is cancelled, so check whether the client still waits.
            if is_ok(context) and context.is_active():
                attachment.accepted(serialize(response))
            return response

        try:
            yield attached
        finally:
            attachment.failed()

    def _deliver(
        self,
        policed: Policed,
        values: Values | Missing,
        context: Context,
        serialize: Serialize,
        respond: Callable[[], Iterable[Any]],
    ) -> Iterator[bytes]:
        """Run a handler whose responses are messages to a consumer."""
        patience = Patience(context.add_callback)
        try:
            waiting = self.enforcer.open(policed, values, self._caller(context))
            delivery = finish(waiting, patience, self.lists)
        except (RefusedError, EndedError) as error:
            _end(context, error)
        paced = Paced(delivery, patience)
        has_left = True
        try:
            # The callback of a cancelled call closes it: the server does not close its iterators.
            if context.add_callback(paced.close):
                for response in respond():
                    data = serialize(response)
                    if paced.passes(data):
                        yield data
                has_left = False
        except EndedError:
            return
        finally:
            paced.close(has_left=has_left)


def _first(reads: Iterator[Read]) -> tuple[Values | Missing, Iterator[Any]]:
    """The values of the first request of a stream, and all requests."""
    none: Read = (Missing.MORE, None)
    first = next(reads, none)
    rest = (request for _, request in reads)
    return first[0], rest if first is none else chain((first[1],), rest)


def _end(context: Context, error: RefusedError | EndedError) -> NoReturn:
    """End a call, with the details where clients of the richer error model look for them."""
    refusal = error.refusal if isinstance(error, RefusedError) else Refusal(1, "Cancelled", b"")
    if refusal.trailers:
        context.set_trailing_metadata(refusal.trailers)
    context.abort(CODES[refusal.code], refusal.text)
    raise AssertionError("abort returned")
