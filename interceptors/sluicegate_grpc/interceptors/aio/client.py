"""The client interceptors for grpc.aio: policies in a client, for a broker that has none."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from sluicegate.model import ANONYMOUS, MethodMap, Role
from sluicegate_grpc.interceptors.aio.call_waits import ListSubscriptions, Paced, finish
from sluicegate_grpc.interceptors.aio.streams import Police, Requests, StreamStream, StreamUnary, fail
from sluicegate_grpc.interceptors.enforcer import Attachment, CallEnforcer, Engine, RefusedError
from sluicegate_grpc.interceptors.policed import Policed, encoded
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.fields import Missing, Values

Details: TypeAlias = aio.ClientCallDetails
Continue: TypeAlias = "Callable[[Details, Any], Awaitable[Any]]"
_CLIENTS = count(1)


def _anonymous(_: "aio.Metadata | None") -> str:
    return ANONYMOUS


def policy_client_interceptors(
    engine: Engine,
    methods: MethodMap,
    *,
    principal: "Callable[[aio.Metadata | None], str]" = _anonymous,
    ghost_release_s: float = 30,
    list_subscriptions: ListSubscriptions | None = None,
    services: Sequence[ServiceDescriptor] = (),
) -> list[aio.ClientInterceptor]:
    """Interceptors for all four kinds of calls: `grpc.aio.insecure_channel(..., interceptors=[...])`.

    They are four, as grpc.aio takes an interceptor for the first kind only that it offers. Use those of one
    call for one channel, or for several that are one client.

    :param engine: decides, such as a `sluicegate.embedded.PolicyEngine`.
    :param methods: which method is which operation; others pass, and are counted.
    :param principal: says whose a call is, by its metadata; ANONYMOUS if it is left out.
    :param ghost_release_s: after so long without a stream or a call, a producer or consumer does not count.
    :param list_subscriptions: tells which subscriptions a topic has, or None if that is not known now; if it
        is left out, those count that were made by these calls.
    :param services: descriptors that the map is checked with; others are taken from protobuf's default pool.
    :raises MethodMapError: if the map is not that of its services, or if some limit would not hold by it.
    """
    lists = list_subscriptions is not None
    enforcer = CallEnforcer(engine, methods, ghost_release_s, lists=lists, services=services)
    client = _Client(enforcer, principal, list_subscriptions)
    return [_UnaryUnary(client), _UnaryStream(client), _StreamUnary(client), _StreamStream(client)]


class _Client:
    """What the four share."""

    def __init__(
        self,
        enforcer: CallEnforcer,
        principal: "Callable[[aio.Metadata | None], str]",
        lists: ListSubscriptions | None,
    ) -> None:
        self.enforcer = enforcer
        self.lists = lists
        self._principal = principal
        self._name = f"client {next(_CLIENTS)}"
        self._streams = count(1)
        self._proving: set[asyncio.Future[None]] = set()

    def policed(self, details: Details, *, response_streaming: bool) -> Policed | None:
        """What the map says of a call's method."""
        name: Any = details.method  # bytes, whatever its type says
        policed = self.enforcer.policed(name if isinstance(name, str) else name.decode())
        if policed is not None:
            policed.check_shape(response_streaming=response_streaming)
        return policed

    def caller(self, details: Details) -> Caller:
        """Whose call it is."""
        return self.enforcer.caller(self._principal(details.metadata), self._name)

    def stream_caller(self, details: Details) -> Caller:
        """One that goes with its stream."""
        name = f"{self._name} stream {next(self._streams)}"
        return self.enforcer.caller_of_its_own(self._principal(details.metadata), name)

    async def police(self, policed: Policed, values: Values | Missing, caller: Caller) -> None:
        """Let a message of a publisher pass, or take notice of another.

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

    async def proceed(self, proceed: Callable[[], Awaitable[Any]], producer: Id | None) -> Any:
        """Make a call that may go on.

        :param producer: counts by its own word until the server has answered; None if it is known.
        """
        if producer is None:
            return await proceed()
        try:
            call = await proceed()
        except BaseException:
            self.enforcer.proved(producer, is_known=False)
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
            self.enforcer.proved(producer, is_known=is_known)

    async def attach(
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

    async def deliver(
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


class _UnaryUnary(aio.UnaryUnaryClientInterceptor):
    def __init__(self, client: _Client) -> None:
        self._client = client

    async def intercept_unary_unary(
        self, continuation: Continue, client_call_details: Details, request: Any
    ) -> Any:
        client = self._client
        policed = client.policed(client_call_details, response_streaming=False)
        if policed is None:
            return await continuation(client_call_details, request)
        values = policed.read(encoded(request))
        caller = client.caller(client_call_details)
        if policed.method.role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE):
            return await client.attach(
                policed, values, caller, lambda: continuation(client_call_details, request)
            )
        try:
            await client.police(policed, values, caller)
        except RefusedError as refused:
            fail(refused.refusal)
        producer = client.enforcer.unproven(policed, values, caller)
        call = await client.proceed(lambda: continuation(client_call_details, request), producer)
        if policed.method.role is Role.DETACH:
            with suppress(aio.AioRpcError):
                await call
                client.enforcer.left(policed, values, caller)
        return call


class _UnaryStream(aio.UnaryStreamClientInterceptor):
    def __init__(self, client: _Client) -> None:
        self._client = client

    async def intercept_unary_stream(
        self, continuation: Continue, client_call_details: Details, request: Any
    ) -> Any:
        client = self._client
        policed = client.policed(client_call_details, response_streaming=True)
        if policed is None:
            return await continuation(client_call_details, request)
        values = policed.read(encoded(request))
        caller = client.caller(client_call_details)
        if policed.method.role is Role.DISPATCH:
            return await client.deliver(
                policed, values, caller, lambda: continuation(client_call_details, request)
            )
        try:
            await client.police(policed, values, caller)
        except RefusedError as refused:
            fail(refused.refusal)
        producer = client.enforcer.unproven(policed, values, caller)
        return await client.proceed(lambda: continuation(client_call_details, request), producer)


class _StreamUnary(aio.StreamUnaryClientInterceptor):
    def __init__(self, client: _Client) -> None:
        self._client = client

    async def intercept_stream_unary(
        self, continuation: Continue, client_call_details: Details, request_iterator: Any
    ) -> Any:
        client = self._client
        policed = client.policed(client_call_details, response_streaming=False)
        if policed is None:
            return await continuation(client_call_details, request_iterator)
        if policed.method.role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE):
            attaching = _Attaching(client, policed, client.caller(client_call_details))
            sent = Requests(request_iterator, first=attaching.begin)
            return StreamUnary(await continuation(client_call_details, sent), sent, attaching.end)
        caller = client.stream_caller(client_call_details)
        sent = Requests(request_iterator, each=client.each(policed, caller))
        call = await continuation(client_call_details, sent)
        return StreamUnary(call, sent, lambda response: client.enforcer.gone(caller))


class _StreamStream(aio.StreamStreamClientInterceptor):
    def __init__(self, client: _Client) -> None:
        self._client = client

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
        return StreamStream(call, sent, lambda: client.enforcer.gone(caller))


class _Attaching:
    """A producer or consumer that attaches by the first request of a stream."""

    def __init__(self, client: _Client, policed: Policed, caller: Caller) -> None:
        self._client = client
        self._policed = policed
        self._caller = caller
        self._attachment: Attachment | None = None
        self._has_ended = False

    async def begin(self, request: Any) -> None:
        """Decide it by the first request."""
        waiting = self._client.enforcer.attach(self._policed, _values(self._policed, request), self._caller)
        self._attachment = await finish(waiting, self._client.lists)
        if self._has_ended:
            self._attachment.failed()

    def end(self, response: Any) -> None:
        """Its call has ended."""
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
        """Decide it by the first request."""
        waiting = self._client.enforcer.open(self._policed, _values(self._policed, request), self._caller)
        self.paced = Paced(await finish(waiting, self._client.lists))
        if self._has_ended:
            self.paced.close()

    def end(self) -> None:
        """Its call has ended."""
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


def _values(policed: Policed, request: Any) -> Values | Missing:
    return Missing.MORE if request is None else policed.read(encoded(request))
