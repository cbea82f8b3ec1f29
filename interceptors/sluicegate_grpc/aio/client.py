"""The client interceptors for grpc.aio: policies in a client, for a broker that has none."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any, NoReturn, TypeAlias

from grpc import aio

from sluicegate.model import ANONYMOUS, MethodMap, Role
from sluicegate_grpc.aio.waiting import ListSubscriptions, Paced, finish
from sluicegate_grpc.calls import Caller
from sluicegate_grpc.codes import CODES, DETAILS
from sluicegate_grpc.door import Attachment, Door, Engine, Policed, RefusedError, encoded
from sluicegate_grpc.fields import Missing, Values
from sluicegate_grpc.status import Refusal

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
    """
    door = Door(engine, methods, ghost_release_s, lists=list_subscriptions is not None)
    client = _Client(door, principal, list_subscriptions)
    return [_UnaryUnary(client), _UnaryStream(client), _StreamUnary(client), _StreamStream(client)]


class _Client:
    """What the four share."""

    def __init__(
        self,
        door: Door,
        principal: "Callable[[aio.Metadata | None], str]",
        lists: ListSubscriptions | None,
    ) -> None:
        self.door = door
        self.lists = lists
        self._principal = principal
        self._name = f"client {next(_CLIENTS)}"
        self._streams = count(1)

    def policed(self, details: Details, *, response_streaming: bool) -> Policed | None:
        """What the map says of a call's method."""
        name: Any = details.method  # bytes, whatever its type says
        policed = self.door.policed(name if isinstance(name, str) else name.decode())
        if policed is not None:
            policed.check_shape(response_streaming=response_streaming)
        return policed

    def caller(self, details: Details) -> Caller:
        """Whose call it is."""
        return self.door.caller(self._principal(details.metadata), self._name)

    def stream_caller(self, details: Details) -> Caller:
        """One that goes with its stream."""
        name = f"{self._name} stream {next(self._streams)}"
        return self.door.caller_of_its_own(self._principal(details.metadata), name)

    async def police(self, policed: Policed, values: Values | Missing, caller: Caller) -> None:
        """Let a message of a publisher pass, or take notice of another.

        :raises RefusedError: if it is refused.
        """
        if policed.method.role is not Role.PUBLISH:
            self.door.note(policed, values, caller)
        elif (waiting := self.door.publish(policed, values, caller)) is not None:
            await finish(waiting)

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
            attachment: Attachment = await finish(self.door.attach(policed, values, caller), self.lists)
        except RefusedError as refused:
            fail(refused.refusal)
        try:
            call = await proceed()
            with suppress(aio.AioRpcError):  # whoever awaits the call is told
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
            delivery = await finish(self.door.open(policed, values, caller), self.lists)
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
        call = await continuation(client_call_details, request)
        if policed.method.role is Role.DETACH:
            with suppress(aio.AioRpcError):
                await call
                client.door.left(policed, values, caller)
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
        return await continuation(client_call_details, request)


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
            first, requests = await _first(request_iterator)
            return await client.attach(
                policed,
                _values(policed, first),
                client.caller(client_call_details),
                lambda: continuation(client_call_details, requests),
            )
        sent = _Requests(client, policed, request_iterator, client.stream_caller(client_call_details))
        call = await continuation(client_call_details, sent)
        try:
            await call
        except asyncio.CancelledError:  # by grpc.aio, as the requests raised, or by whoever waits
            sent.fail_if_refused()
            raise
        except aio.AioRpcError:  # whoever awaits the call is told
            sent.fail_if_refused()
        finally:
            sent.ended()
        return call


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
            first, requests = await _first(request_iterator)
            return await client.deliver(
                policed,
                _values(policed, first),
                client.caller(client_call_details),
                lambda: continuation(client_call_details, requests),
            )
        sent = _Requests(client, policed, request_iterator, client.stream_caller(client_call_details))
        call = await continuation(client_call_details, sent)
        call.add_done_callback(lambda _: sent.ended())
        return _answers(call, sent)


class _Requests:
    """The requests of a stream, each of which passes the policies before it is sent.

    :param requests: what the application sends.
    """

    def __init__(self, client: _Client, policed: Policed, requests: Any, caller: Caller) -> None:
        self._client = client
        self._policed = policed
        self._requests = _iterated(requests)
        self._caller = caller
        self._refusal: Refusal | None = None

    def __aiter__(self) -> "_Requests":
        return self

    async def __anext__(self) -> Any:
        request = await anext(self._requests)
        try:
            await self._client.police(self._policed, self._policed.read(encoded(request)), self._caller)
        except RefusedError as refused:
            self._refusal = refused.refusal
            raise  # grpc.aio cancels the call, whoever waits for it is told by `fail_if_refused`
        return request

    def fail_if_refused(self) -> None:
        """Tell why the stream was cancelled.

        :raises AioRpcError: if a request was refused.
        """
        if self._refusal is not None:
            fail(self._refusal)

    def ended(self) -> None:
        """The call has ended: who published by it alone is gone."""
        self._client.door.gone(self._caller)


async def _paced(call: Any, paced: Paced) -> AsyncIterator[Any]:
    try:
        async for response in call:
            if await paced.passes(encoded(response)):
                yield response
    finally:
        paced.close()


async def _answers(call: Any, sent: _Requests) -> AsyncIterator[Any]:
    try:
        async for response in call:
            yield response
    except (asyncio.CancelledError, aio.AioRpcError):
        sent.fail_if_refused()
        raise


async def _first(requests: Any) -> tuple[Any, AsyncIterator[Any]]:
    """The first request of a stream, and all of them."""
    iterated = _iterated(requests)
    first = await anext(iterated, None)

    async def every() -> AsyncIterator[Any]:
        if first is not None:
            yield first
        async for request in iterated:
            yield request

    return first, every()


async def _iterated(requests: AsyncIterable[Any] | Iterable[Any]) -> AsyncIterator[Any]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request


def _values(policed: Policed, request: Any) -> Values | Missing:
    return Missing.MORE if request is None else policed.read(encoded(request))


def fail(refusal: Refusal) -> NoReturn:
    """End a call as if the server had refused it.

    :raises AioRpcError: always.
    """
    trailers = aio.Metadata(*(((DETAILS, refusal.details),) if refusal.details else ()))
    raise aio.AioRpcError(CODES[refusal.code], aio.Metadata(), trailers, refusal.text)
