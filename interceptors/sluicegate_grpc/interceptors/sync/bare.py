"""Calls of which an interceptor nearer to the channel has left only the responses."""

from collections.abc import Callable, Iterator
from typing import Any
from weakref import finalize

import grpc


class Responses:
    """A call as OpenTelemetry's interceptor gives it: a generator, which begins it once it is read.

    It ends with its iteration, or once it is collected.

    :param responses: what the generator gives.
    """

    def __init__(self, responses: Iterator[Any]) -> None:
        self._responses = responses
        self._callbacks: list[Callable[[], object]] = []
        self._end = finalize(self, _call_all, self._callbacks)
        self._when_done: list[Callable[[Any], None]] = []
        self._code: grpc.StatusCode | None = None

    def code(self) -> grpc.StatusCode | None:
        """The status code once it has ended."""
        return self._code

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """As `grpc.RpcContext.add_callback`."""
        self._callbacks.append(callback)
        return self._end.alive

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """As `grpc.Future.add_done_callback`, for a call that has not ended."""
        self._when_done.append(callback)

    def __iter__(self) -> "Responses":
        return self

    def __next__(self) -> Any:
        try:
            return next(self._responses)
        except StopIteration:
            self._ended(grpc.StatusCode.OK)
            raise
        except grpc.RpcError as error:
            code = getattr(error, "code", None)  # of the channel's own errors, which are calls too
            self._ended(code() if code is not None else grpc.StatusCode.UNKNOWN)
            raise

    def _ended(self, code: grpc.StatusCode) -> None:
        if self._code is None:
            self._code = code
            self._end()
            for callback in self._when_done:
                callback(self)


def _call_all(callbacks: list[Callable[[], object]]) -> None:
    for callback in callbacks:
        callback()
