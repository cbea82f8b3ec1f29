"""The client interceptors for grpc.aio: policies in a client, for a broker that has none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from sluicegate.model import MethodMap, Role
from sluicegate_grpc.interceptors.aio.call_waits import ListSubscriptions, Paced, finish
from sluicegate_grpc.interceptors.aio.streams import Police, Requests, StreamStream, StreamUnary, fail
from sluicegate_grpc.interceptors.client_side import ClientPolicies, Deadline
from sluicegate_grpc.interceptors.enforcer import Attachment, Delivery, Engine, Waiting
from sluicegate_grpc.interceptors.policed import Policed, encoded
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.fields import Missing, Values
from sluicegate_grpc.semantics.status import RefusedError, too_late

Details: TypeAlias = aio.ClientCallDetails
Continue: TypeAlias = "Callable[[Details, Any], Awaitable[Any]]"
Opened = TypeVar("Opened")
Result = TypeVar("Result")


def policy_client_interceptors(
    engine: Engine,
    methods: MethodMap,
    *,
    principal: "Callable[[aio.Metadata | None], str] | None" = None,
    ghost_release_s: float = 30,
    list_subscriptions: ListSubscriptions | None = None,
    services: Sequence[ServiceDescriptor] = (),
) -> list[aio.ClientInterceptor]:
    """Interceptors for all four kinds of calls: `grpc.aio.insecure_channel(..., interceptors=[...])`.

    There are four, as grpc.aio uses an interceptor only for the first kind of call that it supports. Use
    those of one call for one channel, or for several that are one client.

    The parameters are those of `Policies`; `list_subscriptions` is asynchronous.
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

    async def attach(self, policed: Policed, values: Values | Missing, caller: Caller) -> Attachment:
        """Let a producer or consumer attach.

        :raises RefusedError: if it is refused.
        """
        return await finish(self.enforcer.attach(policed, values, caller), self.lists)

    async def open(self, policed: Policed, values: Values | Missing, caller: Caller) -> Paced:
        """Open a stream of messages.

        :raises RefusedError: if it is refused.
        """
        return Paced(await finish(self.enforcer.open(policed, values, caller), self.lists))

    async def _held(self, waiting: Waiting[Result], details: Details) -> tuple[Result, Details]:
        """Wait until a call may proceed, until its client's deadline.

        :return: what the enforcer gives, and the call's details with the time that is left.
        :raises RefusedError: if it is refused, or its time is up.
        """
        deadline = Deadline(details.timeout)
        try:
            async with asyncio.timeout(details.timeout) as limit:
                result = await finish(waiting, self.lists)
        except TimeoutError:
            if not limit.expired():
                raise  # the listing of subscriptions timed out, not the call
            raise RefusedError(too_late()) from None
        return result, deadline.details(details)

    def each(self, policed: Policed, caller: Caller) -> Police:
        """Polices each request of a stream."""

        async def police(request: Any) -> Any:
            waiting = self.enforcer.police(policed, policed.read(encoded(request)), request, caller)
            return request if waiting is None else await finish(waiting)

        return police

    async def _proceed(self, proceed: Callable[[], Awaitable[Any]], producer: Id | None) -> Any:
        """Make a call that may proceed.

        :param producer: counts by an unconfirmed claim until the server has responded; None if it is known.
        """
        if producer is None:
            return await proceed()
        try:
            call = await proceed()
        except BaseException:
            self.enforcer.publish_resolved(producer, is_known=False)
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
            self.enforcer.publish_resolved(producer, is_known=is_known)

    async def one_request(
        self,
        details: Details,
        send: Continue,
        request: Any,
        *,
        response_streaming: bool,
    ) -> Any:
        """Make a call with one request.

        :raises AioRpcError: if it is refused here.
        """
        policed = self.policed(details, response_streaming=response_streaming)
        if policed is None:
            return await send(details, request)
        values, caller = policed.read(encoded(request)), self.caller(details)

        def proceed(details: Details) -> Awaitable[Any]:
            return send(details, request)

        if policed.attaches:
            return await self._attach(self.enforcer.attach(policed, values, caller), details, proceed)
        if policed.method.role is Role.DISPATCH:
            return await self._deliver(self.enforcer.open(policed, values, caller), details, proceed)
        try:
            if (waiting := self.enforcer.police(policed, values, request, caller)) is not None:
                request, details = await self._held(waiting, details)
        except RefusedError as refused:
            fail(refused.refusal)
        unconfirmed = self.enforcer.unconfirmed(policed, values, caller)
        call = await self._proceed(partial(proceed, details), unconfirmed)
        if policed.method.role is Role.DETACH and not response_streaming:
            with suppress(aio.AioRpcError):
                await call
                self.enforcer.left(policed, values, caller)
        return call

    async def _attach(
        self, waiting: Waiting[Attachment], details: Details, proceed: Callable[[Details], Awaitable[Any]]
    ) -> Any:
        """Make a call by which a producer or consumer attaches.

        :raises AioRpcError: if it is refused here.
        """
        try:
            attachment, details = await self._held(waiting, details)
        except RefusedError as refused:
            fail(refused.refusal)
        try:
            call = await proceed(details)
            with suppress(aio.AioRpcError):  # raised where the call is awaited
                attachment.accepted(encoded(await call))
            return call
        finally:
            attachment.failed()

    async def _deliver(
        self, waiting: Waiting[Delivery], details: Details, proceed: Callable[[Details], Awaitable[Any]]
    ) -> AsyncIterator[Any]:
        """Make a call whose responses are messages to a consumer.

        :raises AioRpcError: if it is refused here.
        """
        try:
            delivery, details = await self._held(waiting, details)
        except RefusedError as refused:
            fail(refused.refusal)
        paced = Paced(delivery)
        try:
            call = await proceed(details)
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
            client_call_details, continuation, request, response_streaming=False
        )


class _UnaryStream(_Kind, aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Continue, client_call_details: Details, request: Any
    ) -> Any:
        return await self._client.one_request(
            client_call_details, continuation, request, response_streaming=True
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
            attach = partial(client.attach, policed, caller=client.caller(client_call_details))
            opening = _Opening(policed, attach, Attachment.failed)
            sent = Requests(request_iterator, first=opening.begin)

            def ended(response: Any) -> None:
                if response is not None and opening.opened is not None:
                    opening.opened.accepted(encoded(response))
                opening.end()

            return StreamUnary(await continuation(client_call_details, sent), sent, ended)
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
            open_stream = partial(client.open, policed, caller=client.caller(client_call_details))
            opening = _Opening(policed, open_stream, Paced.close)
            sent = Requests(request_iterator, first=opening.begin)
            call = await continuation(client_call_details, sent)
            return StreamStream(call, sent, opening.end, lambda: opening.opened)
        caller = client.stream_caller(client_call_details)
        sent = Requests(request_iterator, each=client.each(policed, caller))
        call = await continuation(client_call_details, sent)
        return StreamStream(call, sent, lambda: client.enforcer.stream_ended(caller))


@dataclass(eq=False)
class _Opening(Generic[Opened]):
    """What the first request of a stream opens: an attachment, or a stream of messages."""

    policed: Policed
    decide: Callable[[Values | Missing], Awaitable[Opened]]
    """Decides it by the request's values."""
    release: Callable[[Opened], None]
    """Gives it up."""
    opened: Opened | None = None
    has_ended: bool = False

    async def begin(self, request: Any) -> Any:
        """Decide the first request, which is sent as it is."""
        self.opened = await self.decide(self.policed.read_sent(request))
        if self.has_ended:
            self.release(self.opened)
        return request

    def end(self) -> None:
        """The call has ended."""
        self.has_ended = True
        if self.opened is not None:
            self.release(self.opened)


async def _paced(call: Any, paced: Paced) -> AsyncIterator[Any]:
    try:
        async for response in call:
            if await paced.passes(encoded(response)):
                yield response
    finally:
        paced.close()
