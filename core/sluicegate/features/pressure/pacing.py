"""Caches the result of a slow query for an interval."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Paced(Generic[Value]):
    """Runs a query at most once in an interval; in between it returns or raises the last result.

    :param ask: the query.
    :param interval_ms: shortest time between two queries.
    :param now_ns: returns monotonic time.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[Value]], interval_ms: int, now_ns: Callable[[], int]
    ) -> None:
        self._ask = ask
        self._interval_ns = interval_ms * 1_000_000
        self._now_ns = now_ns
        self._asked_ns: int | None = None
        self._value: Value | None = None
        self._error: Exception | None = None

    async def read(self) -> Value:
        """Return the last result, after a new query if the interval is over.

        :raises Exception: the error of the last query.
        """
        now_ns = self._now_ns()
        if self._asked_ns is None or now_ns - self._asked_ns >= self._interval_ns:
            self._asked_ns = now_ns
            try:
                self._value = await self._ask()
            except asyncio.CancelledError:
                self._error = TimeoutError("the last query was cancelled because it took too long")
                raise
            except Exception as error:
                self._error = error
                raise
            self._error = None
        if self._error is not None or self._value is None:
            raise self._error or LookupError("no answer yet")
        return self._value
