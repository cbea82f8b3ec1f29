"""The client interceptor for gRPC's channels with threads."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import grpc

from sluicegate.model import Role
from sluicegate_grpc.interceptors.client_side import ClientPolicies, Deadline
from sluicegate_grpc.interceptors.enforcer import Attachment, Delivery, Waiting
from sluicegate_grpc.interceptors.policed import Policed, encoded
from sluicegate_grpc.interceptors.sync.bare import Responses
from sluicegate_grpc.interceptors.sync.call_waits import (
    EndedError,
    ListSubscriptions,
    Paced,
    Patience,
    finish,
)
from sluicegate_grpc.interceptors.sync.refused import PolicyRpcError
from sluicegate_grpc.semantics.calls import Caller
from sluicegate_grpc.semantics.fields import Missing, Values
from sluicegate_grpc.semantics.status import Refusal, RefusedError

Metadata: TypeAlias = "tuple[tuple[str, str | bytes], ...] | None"
Continue: TypeAlias = "Callable[[Any, Any], Any]"
Result = TypeVar("Result")


class PolicyClientInterceptor(
    ClientPolicies[Metadata, ListSubscriptions],
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Applies policies to the calls of a channel: `grpc.intercept_channel(channel, ...)`.

    A call that has to wait blocks its thread, an attaching call blocks until its
    response, even as a future.

    Its parameters are those of `Policies`.
    """

    def intercept_unary_unary(
        self, continuation: Continue, client_call_details: grpc.ClientCallDetails, request: Any
    ) -> Any:
        """A call with one request and one response."""
        return self._one_request(continuation, client_call_details, request, response_streaming=False)

    def intercept_unary_stream(
        self, continuation: Continue, client_call_details: grpc.ClientCallDetails, request: Any
    ) -> Any:
        """A call with one request and a stream of responses."""
        return self._one_request(continuation, client_call_details, request, response_streaming=True)

    def intercept_stream_unary(
        self, continuation: Continue, client_call_details: grpc.ClientCallDetails, request_iterator: Any
    ) -> Any:
        """A call with a stream of requests and one response."""
        policed = self.policed(client_call_details, response_streaming=False)
        if policed is None:
            return continuation(client_call_details, request_iterator)
        if policed.attaches:
            first, requests = _first(request_iterator)
            caller = self.caller(client_call_details)
            waiting = self.enforcer.attach(policed, policed.read_sent(first), caller)
            return self._attach(waiting, client_call_details, lambda details: continuation(details, requests))
        sent = _Requests(self, policed, request_iterator, client_call_details)
        try:
            call = continuation(client_call_details, sent)
            with suppress(grpc.FutureCancelledError):
                call.exception()  # waits, as a future could not report later why its requests were refused
        finally:
            sent.ended()
        return call if sent.refusal is None else PolicyRpcError(sent.refusal)

    def intercept_stream_stream(
        self, continuation: Continue, client_call_details: grpc.ClientCallDetails, request_iterator: Any
    ) -> Any:
        """A call with streams of requests and responses."""
        policed = self.policed(client_call_details, response_streaming=True)
        if policed is None:
            return continuation(client_call_details, request_iterator)
        if policed.method.role is Role.DISPATCH:
            first, requests = _first(request_iterator)
            caller = self.caller(client_call_details)
            waiting = self.enforcer.open(policed, policed.read_sent(first), caller)
            return self._deliver(
                waiting, client_call_details, lambda details: continuation(details, requests)
            )
        sent = _Requests(self, policed, request_iterator, client_call_details)
        call = continuation(client_call_details, sent)
        if not call.add_callback(sent.ended):
            sent.ended()
        return _Responses(call, sent)

    # -- what they share ------------------------------------------------------------------------------

    def _one_request(
        self, continuation: Continue, details: Any, request: Any, *, response_streaming: bool
    ) -> Any:
        policed = self.policed(details, response_streaming=response_streaming)
        if policed is None:
            return continuation(details, request)
        values, caller = policed.read(encoded(request)), self.caller(details)

        def proceed(details: Any) -> Any:
            call = continuation(details, request)
            return Responses(call) if response_streaming and not hasattr(call, "add_callback") else call

        if policed.attaches:
            return self._attach(self.enforcer.attach(policed, values, caller), details, proceed)
        if policed.method.role is Role.DISPATCH:
            return self._deliver(self.enforcer.open(policed, values, caller), details, proceed)
        try:
            if (waiting := self.enforcer.police(policed, values, request, caller)) is not None:
                request, details = self._held(waiting, details)
        except RefusedError as refused:
            return PolicyRpcError(refused.refusal)
        call = self._proceed(partial(proceed, details), policed, values, caller)
        if policed.method.role is Role.DETACH and not response_streaming:
            with suppress(grpc.RpcError, grpc.FutureCancelledError):
                call.result()
                self.enforcer.left(policed, values, caller)
        return call

    def _held(self, waiting: Waiting[Result], details: Any) -> tuple[Result, Any]:
        """Block until a call may proceed, until its client's deadline.

        :return: what the enforcer gives, and the call's details with the time that is left.
        :raises RefusedError: if it is refused, or its time is up.
        """
        deadline = Deadline(details.timeout)
        return finish(waiting, Patience(deadline=deadline), self.lists), deadline.details(details)

    def police(self, policed: Policed, request: Any, caller: Caller, patience: Patience) -> Any:
        """Let a message of a publisher pass, or record another.

        :return: the request to send.
        :raises RefusedError: if it is refused.
        """
        waiting = self.enforcer.police(policed, policed.read(encoded(request)), request, caller)
        return request if waiting is None else finish(waiting, patience)

    def _proceed(
        self, proceed: Callable[[], Any], policed: Policed, values: Values | Missing, caller: Caller
    ) -> Any:
        """Make an admitted call, and see whether the server knows its producer."""
        producer = self.enforcer.unconfirmed(policed, values, caller)
        if producer is None:
            return proceed()
        try:
            call = proceed()
        except BaseException:
            self.enforcer.publish_resolved(producer, is_known=False)
            raise

        def answered(_: Any = None) -> None:
            self.enforcer.publish_resolved(producer, is_known=call.code() is grpc.StatusCode.OK)

        call.add_done_callback(answered)
        return call

    def _attach(self, waiting: Waiting[Attachment], details: Any, proceed: Callable[[Any], Any]) -> Any:
        try:
            attachment, details = self._held(waiting, details)
        except RefusedError as refused:
            return PolicyRpcError(refused.refusal)
        try:
            call = proceed(details)
            with suppress(grpc.RpcError, grpc.FutureCancelledError):  # raised where the result is asked for
                attachment.accepted(encoded(call.result()))
            return call
        finally:
            attachment.failed()

    def _deliver(self, waiting: Waiting[Delivery], details: Any, proceed: Callable[[Any], Any]) -> Any:
        try:
            delivery, details = self._held(waiting, details)
        except RefusedError as refused:
            return PolicyRpcError(refused.refusal)
        patience = Patience()
        paced = Paced(delivery, patience)
        try:
            call = proceed(details)
        except BaseException:
            paced.close()
            raise

        if not call.add_callback(paced.close):
            paced.close()
        return _Deliveries(call, paced, patience)


class _Call:
    """A call with a stream of responses; all but them is the channel's own."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __iter__(self) -> Any:
        return self


class _Deliveries(_Call):
    """Responses that are messages to a consumer, each when it may be delivered.

    What has arrived before the call ended is delivered; only a cancellation ends it at once.
    """

    def __init__(self, call: Any, paced: Paced, patience: Patience) -> None:
        super().__init__(call)
        self._paced = paced
        self._patience = patience

    def cancel(self) -> bool:
        """As `grpc.RpcContext.cancel`."""
        self._patience.end()
        cancelled: bool = self._call.cancel()
        return cancelled

    def __next__(self) -> Any:
        while True:
            response = next(self._call)
            with suppress(EndedError):  # the call itself reports next how it has ended
                if self._paced.passes(encoded(response)):
                    return response


class _Responses(_Call):
    """Responses to requests that may be refused."""

    def __init__(self, call: Any, sent: "_Requests") -> None:
        super().__init__(call)
        self._sent = sent

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except grpc.RpcError:
            if self._sent.refusal is not None:
                raise PolicyRpcError(self._sent.refusal) from None
            raise


class _Requests:
    """The requests of a stream, each of which passes the policies before it is sent.

    :param requests: what the application sends.
    """

    def __init__(
        self, interceptor: PolicyClientInterceptor, policed: Policed, requests: Iterator[Any], details: Any
    ) -> None:
        self._interceptor = interceptor
        self._policed = policed
        self._requests = iter(requests)
        self._caller = interceptor.stream_caller(details)
        self._patience = Patience()
        self.refusal: Refusal | None = None

    def __iter__(self) -> "_Requests":
        return self

    def __next__(self) -> Any:
        request = next(self._requests)
        try:
            return self._interceptor.police(self._policed, request, self._caller, self._patience)
        except RefusedError as refused:
            self.refusal = refused.refusal
            raise  # the channel cancels the call
        except EndedError:
            raise StopIteration from None

    def ended(self) -> None:
        """The call has ended: release the producers that only it attached, and send nothing more."""
        self._patience.end()
        self._interceptor.enforcer.stream_ended(self._caller)


def _first(requests: Any) -> tuple[Any, Iterator[Any]]:
    """The first request of a stream, and all of them."""
    iterated = iter(requests)
    for first in iterated:
        return first, chain((first,), iterated)
    return None, iterated
