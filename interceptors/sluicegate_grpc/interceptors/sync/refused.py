"""A call that was refused in the client, as gRPC gives calls that have ended: an error, call and future."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

import grpc

from sluicegate_grpc.interceptors.codes import CODES
from sluicegate_grpc.semantics.status import Refusal


class PolicyRpcError(grpc.RpcError, grpc.Call, grpc.Future):  # type: ignore[type-arg]  # not at run time
    """A call that was refused in the client; it carries what an error of the server carries.

    An interceptor returns it. If it raised it, gRPC would make INTERNAL of it where the call is a future.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self._refusal = refusal

    # -- how it ended ---------------------------------------------------------------------------------

    def code(self) -> grpc.StatusCode:
        """The status code."""
        return CODES[self._refusal.code]

    def details(self) -> str:
        """The text."""
        return self._refusal.text

    def initial_metadata(self) -> Any:
        """None was received."""
        return ()

    def trailing_metadata(self) -> Any:
        """The details of the richer error model, as a server would have sent them."""
        return self._refusal.trailers

    # -- as a call ------------------------------------------------------------------------------------

    def is_active(self) -> bool:
        """It has ended."""
        return False

    def time_remaining(self) -> Any:
        """It has ended."""
        return None

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """It has ended, so the callback will not be called."""
        return False

    def __iter__(self) -> "PolicyRpcError":
        return self

    def __next__(self) -> NoReturn:
        raise self

    # -- as a future ----------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """It has ended."""
        return False

    def cancelled(self) -> bool:
        """It was refused, not cancelled."""
        return False

    def running(self) -> bool:
        """It has ended."""
        return False

    def done(self) -> bool:
        """It has ended."""
        return True

    def result(self, timeout: float | None = None) -> NoReturn:
        """Raise it."""
        raise self

    def exception(self, timeout: float | None = None) -> "PolicyRpcError":
        """The error, which is this."""
        return self

    def traceback(self, timeout: float | None = None) -> TracebackType | None:
        """Where it was raised, if it was."""
        return self.__traceback__

    def add_done_callback(self, fn: Callable[[Any], None]) -> None:
        """Call at once, as it has ended."""
        fn(self)
