"""Calls of a grpc.aio channel that stream their requests, with policies on each of them.

An interceptor has to return such a call at once: the application's writes wait for that. So the
policies stand in the iterator of requests that grpc.aio reads, and a refusal becomes the end of the call.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable
from typing import Any, NoReturn

import grpc
from grpc import aio

from sluicegate_grpc.interceptors.aio.call_waits import Paced
from sluicegate_grpc.interceptors.codes import CODES
from sluicegate_grpc.interceptors.policed import encoded
from sluicegate_grpc.semantics.status import Refusal, RefusedError

Police = Callable[[Any], Awaitable[Any]]
"""Gives the request to send, or raises RefusedError; None instead of a request if there is none."""


class Requests:
    """The requests of a call, each of which passes the policies before it is sent.

    :param requests: what the application sends.
    :param first: for the first request, if it is policed in another way; the stream begins with it.
    :param each: for all others.
    """

    def __init__(
        self,
        requests: AsyncIterable[Any] | Iterable[Any],
        *,
        first: Police | None = None,
        each: Police | None = None,
    ) -> None:
        self._requests = _iterated(requests)
        self._first = first
        self._each = each
        self.refusal: Refusal | None = None
        """Why the call was ended."""
        self.begun = asyncio.Event()
        """Set once the first request has passed, or none will."""

    def __aiter__(self) -> "Requests":
        return self

    async def __anext__(self) -> Any:
        try:
            request = await anext(self._requests, None)
            if self._first is not None:
                first, self._first = self._first, None
                request = await first(request)
                self.begun.set()
            elif self._each is not None and request is not None:
                request = await self._each(request)
        except RefusedError as refused:
            self.refusal = refused.refusal
            raise  # grpc.aio cancels the call; its caller gets the refusal
        if request is None:
            raise StopAsyncIteration
        return request

    def fail_if_refused(self) -> None:
        """Raise the refusal that ended the call.

        :raises AioRpcError: if a request was refused.
        """
        if self.refusal is not None:
            fail(self.refusal)


class _Call(aio.Call):
    """A grpc.aio call whose status is the refusal, if there was one.

    :param call: grpc.aio's own.
    :param sent: its requests.
    """

    def __init__(self, call: Any, sent: Requests) -> None:
        self._call = call
        self._sent = sent

    @property
    def _done_writing_flag(self) -> bool:
        """What grpc.aio asks before it takes one more request."""
        return bool(self._call._done_writing_flag)  # noqa: SLF001

    def cancelled(self) -> bool:
        return self._sent.refusal is None and bool(self._call.cancelled())

    def done(self) -> bool:
        return bool(self._call.done())

    def time_remaining(self) -> float | None:
        left: float | None = self._call.time_remaining()
        return left

    def cancel(self) -> bool:
        return bool(self._call.cancel())

    def add_done_callback(self, callback: Any) -> None:
        self._call.add_done_callback(callback)

    async def initial_metadata(self) -> Any:
        return await self._call.initial_metadata()

    async def wait_for_connection(self) -> None:
        await self._call.wait_for_connection()

    async def code(self) -> grpc.StatusCode:
        code: grpc.StatusCode = await self._call.code()
        return code if self._sent.refusal is None else CODES[self._sent.refusal.code]

    async def details(self) -> Any:
        details = await self._call.details()
        return details if self._sent.refusal is None else self._sent.refusal.text

    async def trailing_metadata(self) -> Any:
        trailers = await self._call.trailing_metadata()
        return trailers if self._sent.refusal is None else _trailers(self._sent.refusal)

    async def write(self, request: Any) -> None:
        await self._call.write(request)

    async def done_writing(self) -> None:
        await self._call.done_writing()


class StreamUnary(_Call, aio.StreamUnaryCall[Any, Any]):
    """A call with one response.

    :param ended: called with the response once it is there, with None if the call ended otherwise.
    """

    def __init__(self, call: Any, sent: Requests, ended: Callable[[Any], None]) -> None:
        super().__init__(call, sent)
        self._ending = asyncio.ensure_future(self._end(ended))

    async def _end(self, ended: Callable[[Any], None]) -> None:
        response = None
        try:
            if await self._call.code() is grpc.StatusCode.OK:
                response = await self._call
        finally:
            ended(response)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def _response(self) -> Any:
        try:
            response = await self._call
        except (asyncio.CancelledError, aio.AioRpcError):
            self._sent.fail_if_refused()
            raise
        await asyncio.shield(self._ending)
        return response


class StreamStream(_Call, aio.StreamStreamCall[Any, Any]):
    """A call with a stream of responses.

    :param ended: called once the call has ended.
    :param paced: gives what paces the responses, once the first request has passed; None
        if nothing does.
    """

    def __init__(
        self,
        call: Any,
        sent: Requests,
        ended: Callable[[], None],
        paced: Callable[[], Paced | None] | None = None,
    ) -> None:
        super().__init__(call, sent)
        self._paced = paced
        self._responses: AsyncIterator[Any] | None = None

        def done(_: Any) -> None:
            sent.begun.set()
            ended()

        call.add_done_callback(done)

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._responses is None:
            self._responses = self._iterated()
        return self._responses

    async def read(self) -> Any:
        """As `grpc.aio.StreamStreamCall.read`."""
        return await anext(aiter(self), aio.EOF)

    async def _iterated(self) -> AsyncIterator[Any]:
        if self._paced is not None:
            await self._sent.begun.wait()
        try:
            async for response in self._call:
                if await self._passes(response):
                    yield response
        except (asyncio.CancelledError, aio.AioRpcError):
            self._sent.fail_if_refused()
            raise

    async def _passes(self, response: Any) -> bool:
        if self._paced is None:
            return True
        paced = self._paced()
        return paced is not None and await paced.passes(encoded(response))


async def _iterated(requests: AsyncIterable[Any] | Iterable[Any]) -> AsyncIterator[Any]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request


def _trailers(refusal: Refusal) -> aio.Metadata:
    return aio.Metadata(*refusal.trailers)


def fail(refusal: Refusal) -> NoReturn:
    """End a call as if the server had refused it.

    :raises AioRpcError: always.
    """
    raise aio.AioRpcError(CODES[refusal.code], aio.Metadata(), _trailers(refusal), refusal.text)
