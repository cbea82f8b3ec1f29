"""The client interceptors for grpc.aio: policies in a client, for a broker that has none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from sluicegate.model import MethodMap, Role
from sluicegate_grpc.interceptors.aio.call_waits import ListSubscriptions, Paced, finish
from sluicegate_grpc.interceptors.aio.streams import Police, Requests, StreamStream, StreamUnary, fail
from sluicegate_grpc.interceptors.client_side import ClientPolicies, anonymous
from sluicegate_grpc.interceptors.enforcer import Attachment, Engine, RefusedError
from sluicegate_grpc.interceptors.policed import Policed, encoded
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.fields import Missing, Values

Details: TypeAlias = aio.ClientCallDetails
Continue: TypeAlias = "Callable[[Details, Any], Awaitable[Any]]"


def policy_client_interceptors(
    engine: Engine,
    methods: MethodMap,
    *,
    principal: "Callable[[aio.Metadata | None], str]" = anonymous,
    ghost_release_s: float = 30,
    list_subscriptions: ListSubscriptions | None = None,
    services: Sequence[ServiceDescriptor] = (),
) -> list[aio.ClientInterceptor]:
    """Interceptors for all four kinds of calls: `grpc.aio.insecure_channel(..., interceptors=[...])`.

    There are four, as grpc.aio uses an interceptor only for the first kind of call that it supports. Use
    those of one call for one channel, or for several that are one client.

    The parameters are those of `ClientPolicies`; `list_subscriptions` is asynchronous.
    """
    client = _Client(
        engine,
        methods,
        principal=principal,
        ghost_release_s=ghost_release_s,
        list_subscriptions=list_subscriptions,
        services=services,
    )
    return [_UnaryUnary(client), _UnaryStream(client), _StreamUnary(client), _StreamStream(client)]


class _Client(ClientPolicies["aio.Metadata | None", ListSubscriptions]):
    """What the four interceptors share."""

    _proving: ClassVar[set[asyncio.Future[None]]] = set()
    """Tasks that only the event loop would refer to, and weakly."""

    async def police(self, policed: Policed, values: Values | Missing, caller: Caller) -> None:
        """Let a message of a publisher pass, or record another.

        :raises RefusedError: if it is refused.
        """
        if policed.method.role is not Role.PUBLISH:
            self.enforcer.note(policed, values, caller)
        elif (waiting := self.enforcer.publish(policed, values, caller)) is not None:
            await finish(waiting)

    def each(self, policed: Policed, caller: Caller) -> Police:
        """Polices each request of a stream."""

        async def police(request: Any) -> None:
            await self.police(policed, policed.read(encoded(request)), caller)

        return police

    async def _proceed(self, proceed: Callable[[], Awaitable[Any]], producer: Id | None) -> Any:
        """Make a call that may proceed.

        :param producer: counts by an unconfirmed claim until the server has answered; None if it is known.
        """
        if producer is None:
            return await proceed()
        try:
            call = await proceed()
        except BaseException:
            self.enforcer.publish_answered(producer, is_known=False)
            raise
        proving = asyncio.ensure_future(self._prove(call, producer))
        self._proving.add(proving)
        proving.add_done_callback(self._proving.discard)
        return call

    async def _prove(self, call: Any, producer: Id) -> None:
        is_known = False
        try:
            is_known = await call.code() is grpc.StatusCode.OK
        finally:
            self.enforcer.publish_answered(producer, is_known=is_known)

    async def one_request(
        self,
        details: Details,
        send: Callable[[Any], Awaitable[Any]],
        request: Any,
        *,
        response_streaming: bool,
    ) -> Any:
        """Make a call with one request.

        :raises AioRpcError: if it is refused here.
        """
        policed = self.policed(details, response_streaming=response_streaming)
        if policed is None:
            return await send(request)
        values, caller, proceed = policed.read(encoded(request)), self.caller(details), partial(send, request)
        if policed.attaches:
            return await self._attach(policed, values, caller, proceed)
        if policed.method.role is Role.DISPATCH:
            return await self._deliver(policed, values, caller, proceed)
        try:
            await self.police(policed, values, caller)
        except RefusedError as refused:
            fail(refused.refusal)
        call = await self._proceed(proceed, self.enforcer.unconfirmed(policed, values, caller))
        if policed.method.role is Role.DETACH and not response_streaming:
            with suppress(aio.AioRpcError):
                await call
                self.enforcer.left(policed, values, caller)
        return call

    async def _attach(
        self,
        policed: Policed,
        values: Values | Missing,
        caller: Caller,
        proceed: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Make a call by which a producer or consumer attaches.

        :raises AioRpcError: if it is refused here.
        """
        try:
            attachment: Attachment = await finish(self.enforcer.attach(policed, values, caller), self.lists)
        except RefusedError as refused:
            fail(refused.refusal)
        try:
            call = await proceed()
            with suppress(aio.AioRpcError):  # raised where the call is awaited
                attachment.answered(encoded(await call))
            return call
        finally:
            attachment.failed()

    async def _deliver(
        self,
        policed: Policed,
        values: Values | Missing,
        caller: Caller,
        proceed: Callable[[], Awaitable[Any]],
    ) -> AsyncIterator[Any]:
        """Make a call whose responses are messages to a consumer.

        :raises AioRpcError: if it is refused here.
        """
        try:
            delivery = await finish(self.enforcer.open(policed, values, caller), self.lists)
        except RefusedError as refused:
            fail(refused.refusal)
        paced = Paced(delivery)
        try:
            call = await proceed()
        except BaseException:
            paced.close()
            raise
        call.add_done_callback(lambda _: paced.close())
        return _paced(call, paced)


class _Kind:
    """An interceptor for one kind of calls."""

    def __init__(self, client: _Client) -> None:
        self._client = client


class _UnaryUnary(_Kind, aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Continue, client_call_details: Details, request: Any
    ) -> Any:
        return await self._client.one_request(
            client_call_details, partial(continuation, client_call_details), request, response_streaming=False
        )


class _UnaryStream(_Kind, aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Continue, client_call_details: Details, request: Any
    ) -> Any:
        return await self._client.one_request(
            client_call_details, partial(continuation, client_call_details), request, response_streaming=True
        )


class _StreamUnary(_Kind, aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(
        self, continuation: Continue, client_call_details: Details, request_iterator: Any
    ) -> Any:
        client = self._client
        policed = client.policed(client_call_details, response_streaming=False)
        if policed is None:
            return await continuation(client_call_details, request_iterator)
        if policed.attaches:
            attaching = _Attaching(client, policed, client.caller(client_call_details))
            sent = Requests(request_iterator, first=attaching.begin)
            return StreamUnary(await continuation(client_call_details, sent), sent, attaching.end)
        caller = client.stream_caller(client_call_details)
        sent = Requests(request_iterator, each=client.each(policed, caller))
        call = await continuation(client_call_details, sent)
        return StreamUnary(call, sent, lambda response: client.enforcer.stream_ended(caller))


class _StreamStream(_Kind, aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(
        self, continuation: Continue, client_call_details: Details, request_iterator: Any
    ) -> Any:
        client = self._client
        policed = client.policed(client_call_details, response_streaming=True)
        if policed is None:
            return await continuation(client_call_details, request_iterator)
        if policed.method.role is Role.DISPATCH:
            opening = _Opening(client, policed, client.caller(client_call_details))
            sent = Requests(request_iterator, first=opening.begin)
            call = await continuation(client_call_details, sent)
            return StreamStream(call, sent, opening.end, lambda: opening.paced)
        caller = client.stream_caller(client_call_details)
        sent = Requests(request_iterator, each=client.each(policed, caller))
        call = await continuation(client_call_details, sent)
        return StreamStream(call, sent, lambda: client.enforcer.stream_ended(caller))


class _Attaching:
    """A producer or consumer that attaches by the first request of a stream."""

    def __init__(self, client: _Client, policed: Policed, caller: Caller) -> None:
        self._client = client
        self._policed = policed
        self._caller = caller
        self._attachment: Attachment | None = None
        self._has_ended = False

    async def begin(self, request: Any) -> None:
        """Decide the attachment by the first request."""
        waiting = self._client.enforcer.attach(self._policed, self._policed.read_sent(request), self._caller)
        self._attachment = await finish(waiting, self._client.lists)
        if self._has_ended:
            self._attachment.failed()

    def end(self, response: Any) -> None:
        """The call has ended."""
        self._has_ended = True
        if self._attachment is not None:
            if response is not None:
                self._attachment.answered(encoded(response))
            self._attachment.failed()


class _Opening:
    """A stream of messages to a consumer that begins with the first request."""

    def __init__(self, client: _Client, policed: Policed, caller: Caller) -> None:
        self._client = client
        self._policed = policed
        self._caller = caller
        self._has_ended = False
        self.paced: Paced | None = None

    async def begin(self, request: Any) -> None:
        """Decide the attachment by the first request."""
        waiting = self._client.enforcer.open(self._policed, self._policed.read_sent(request), self._caller)
        self.paced = Paced(await finish(waiting, self._client.lists))
        if self._has_ended:
            self.paced.close()

    def end(self) -> None:
        """The call has ended."""
        self._has_ended = True
        if self.paced is not None:
            self.paced.close()


async def _paced(call: Any, paced: Paced) -> AsyncIterator[Any]:
    try:
        async for response in call:
            if await paced.passes(encoded(response)):
                yield response
    finally:
        paced.close()
