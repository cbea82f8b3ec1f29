"""The server interceptor for grpc.aio: policies for a broker that is written with it."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import grpc
from grpc import aio

from sluicegate.model import Role
from sluicegate_grpc.interceptors.aio.call_waits import ListSubscriptions, Paced, finish
from sluicegate_grpc.interceptors.codes import CODES
from sluicegate_grpc.interceptors.enforcer import Attachment
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.interceptors.server_side import Handler, Read, Serialize, ServerPolicies, is_ok
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.fields import Missing, Values
from sluicegate_grpc.semantics.status import Refusal, RefusedError

Context: TypeAlias = "aio.ServicerContext[Any, Any]"
Admit: TypeAlias = "Callable[[Any, Context], AbstractAsyncContextManager[tuple[Any, _Context]]]"


class PolicyServerInterceptor(ServerPolicies[Context, ListSubscriptions], aio.ServerInterceptor):
    """Applies policies to the calls of a server: `grpc.aio.server(interceptors=[...])`.

    Its parameters are those of `Policies`; `list_subscriptions` is asynchronous.
    """

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Give the handler of a call, with the policies around it.

        :raises ValueError: if the map gives its method a role that a method of its shape cannot have.
        :raises TypeError: if the handler is not asynchronous.
        """
        return self._policed(await continuation(handler_call_details), handler_call_details.method)

    def _unary_unary(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        behavior = _asynchronous(behavior, policed)

        async def call(request: Read, context: Context) -> Any:
            values, message = request
            if policed.attaches:
                async with self._attaching(policed, values, context, serialize) as attached:
                    return attached(await behavior(message, context))
            caller = self._caller(context)
            message = await self._police(policed, values, message, caller, context)
            producer = self.enforcer.unconfirmed(policed, values, caller)
            with self._proving(producer, context):
                response = await behavior(message, context)
            if policed.method.role is Role.DETACH and is_ok(context):
                self.enforcer.left(policed, values, caller)
            return response

        return call

    # -- streams --------------------------------------------------------------------------------------

    def _unary_stream(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        @asynccontextmanager
        async def admitted(request: Read, context: Context) -> AsyncIterator[tuple[Any, _Context]]:
            values, message = request
            if policed.method.role is Role.DISPATCH:
                async with self._delivering(policed, values, context) as paced:
                    yield message, _Context(context, serialize, None, paced)
                return
            caller = self._caller(context)
            message = await self._police(policed, values, message, caller, context)
            with self._proving(self.enforcer.unconfirmed(policed, values, caller), context):
                yield message, _Context(context, serialize)

        return _streaming(behavior, policed, admitted)

    def _stream_stream(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        @asynccontextmanager
        async def admitted(
            reads: AsyncIterator[Read], context: Context
        ) -> AsyncIterator[tuple[_Requests, _Context]]:
            if policed.method.role is not Role.DISPATCH:
                requests = _Requests(self, policed, reads, context, self._stream_caller(context))
                with requests.served():
                    yield requests, _Context(context, serialize, requests)
                return
            values, first = await _first(reads)
            requests = _Requests(self, None, reads, context, self._caller(context), first)
            async with self._delivering(policed, values, context) as paced:
                yield requests, _Context(context, serialize, requests, paced)

        return _streaming(behavior, policed, admitted)

    def _stream_unary(self, behavior: Any, policed: Policed, serialize: Serialize) -> Any:
        behavior = _asynchronous(behavior, policed)

        async def call(reads: AsyncIterator[Read], context: Context) -> Any:
            if policed.attaches:
                values, first = await _first(reads)
                requests = _Requests(self, None, reads, context, self._caller(context), first)
                own = _Context(context, serialize, requests)
                async with self._attaching(policed, values, context, serialize) as attached:
                    return attached(await behavior(requests, own))
            requests = _Requests(self, policed, reads, context, self._stream_caller(context))
            own = _Context(context, serialize, requests)
            with requests.served():
                return await behavior(requests, own)

        return call

    @asynccontextmanager
    async def _delivering(
        self, policed: Policed, values: Values | Missing, context: Context
    ) -> AsyncIterator[Paced]:
        """Admit a stream of messages to a consumer, which its handler sends within the block."""
        try:
            waiting = self.enforcer.open(policed, values, self._caller(context))
            paced = Paced(await finish(waiting, self.lists))
        except RefusedError as refused:
            await abort(context, refused.refusal)
        has_left = True
        _at_end(context, paced.close)
        try:
            yield paced
            has_left = False
        finally:
            paced.close(has_left=has_left)

    @asynccontextmanager
    async def _attaching(
        self, policed: Policed, values: Values | Missing, context: Context, serialize: Serialize
    ) -> AsyncIterator[Callable[[Any], Any]]:
        """Admit a producer or consumer; its handler runs within the block, and hands its response over."""
        try:
            waiting = self.enforcer.attach(policed, values, self._caller(context))
            attachment: Attachment = await finish(waiting, self.lists)
        except RefusedError as refused:
            await abort(context, refused.refusal)

        def attached(response: Any) -> Any:
            if is_ok(context):
                attachment.accepted(serialize(response))
            return response

        try:
            yield attached
        finally:
            attachment.failed()

    @contextmanager
    def _proving(self, producer: Id | None, context: Context) -> Iterator[None]:
        """Run a handler within the block; its response confirms an unconfirmed producer, if there is one."""
        is_known = False
        try:
            yield
            is_known = is_ok(context)
        finally:
            self.enforcer.publish_resolved(producer, is_known=is_known)

    async def _police(
        self, policed: Policed, values: Values | Missing, message: Any, caller: Caller, context: Context
    ) -> Any:
        """Let a message of a publisher pass, or record another; a refused one ends the call.

        :return: the message to proceed with.
        """
        try:
            waiting = self.enforcer.police(policed, values, message, caller)
            return message if waiting is None else await finish(waiting)
        except RefusedError as refused:
            await abort(context, refused.refusal)


@dataclass(eq=False)
class _Requests:
    """The requests of a stream, each of which passes the policies before the handler sees it."""

    interceptor: PolicyServerInterceptor
    policed: Policed | None
    """The method; None if its requests pass."""
    reads: AsyncIterator[Read]
    context: Context
    caller: Caller
    first: Any = None
    """A request that was read already."""

    def __aiter__(self) -> "_Requests":
        return self

    async def __anext__(self) -> Any:
        if self.first is not None:
            first, self.first = self.first, None
            return first
        values, request = await anext(self.reads)
        if self.policed is not None:
            police = self.interceptor._police  # noqa: SLF001 - of this file
            return await police(self.policed, values, request, self.caller, self.context)
        return request

    async def read(self) -> Any:
        """As `ServicerContext.read`."""
        async for request in self:
            return request
        return aio.EOF

    @contextmanager
    def served(self) -> Iterator[None]:
        """Run the handler within the block; producers that only its stream attached are released with it."""

        def ended() -> None:
            self.interceptor.enforcer.stream_ended(self.caller)

        _at_end(self.context, ended)
        try:
            yield
        finally:
            ended()


@dataclass(eq=False)
class _Context:
    """The context of a call, with policies on its reads and writes; everything else is the server's own."""

    _context: Context
    _serialize: Serialize
    """Makes bytes of a response."""
    _requests: _Requests | None = None
    """What is read."""
    _paced: Paced | None = None
    """Paces the responses, if they are messages."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, response: Any) -> None:
        """As `ServicerContext.write`."""
        if (data := await self.passed(response)) is not None:
            await self._context.write(data)

    async def passed(self, response: Any) -> bytes | None:
        """The bytes of a response once it may be sent; None if it is dropped."""
        data = self._serialize(response)
        return data if self._paced is None or await self._paced.passes(data) else None

    async def read(self) -> Any:
        """As `ServicerContext.read`."""
        return await (self._context.read() if self._requests is None else self._requests.read())


def _streaming(behavior: Any, policed: Policed, admitted: Admit) -> Any:
    """A handler that streams responses, in the style of another: interceptors around it tell them apart.

    :param admitted: admits a call, whose handler runs within the block with its request and its context.
    """
    if not inspect.isasyncgenfunction(behavior):
        writing = _asynchronous(behavior, policed)

        async def write(request: Any, context: Context) -> None:
            async with admitted(request, context) as call:
                await writing(*call)

        return write

    async def generate(request: Any, context: Context) -> AsyncIterator[bytes]:
        async with (
            admitted(request, context) as (message, own),
            aclosing(behavior(message, own)) as responses,
        ):
            async for response in responses:
                if (data := await own.passed(response)) is not None:
                    yield data

    return generate


def _at_end(context: Any, done: Callable[[], None]) -> None:
    """Call something once a call has ended, even if its handler never runs.

    A generator whose call is cancelled while the server sends ends only when it is collected.
    """
    context.add_done_callback(lambda _: done())


def _asynchronous(behavior: Any, policed: Policed) -> Any:
    of_class = getattr(type(behavior), "__call__", None)  # noqa: B004 - of an object that is called
    if not (inspect.iscoroutinefunction(behavior) or inspect.iscoroutinefunction(of_class)):
        raise TypeError(f"the handler of {policed.name} is not asynchronous, which policies need in grpc.aio")
    return behavior


async def _first(reads: AsyncIterator[Read]) -> Read:
    """The first request of a stream. Not by `anext`: the server's iterators do not support its default."""
    async for read in reads:
        return read
    return Missing.MORE, None


async def abort(context: Context, refusal: Refusal) -> NoReturn:
    """End a call, with the details where clients of the richer error model look for them."""
    await context.abort(CODES[refusal.code], refusal.text, refusal.trailers)
    raise AssertionError("abort returned")
