"""One request for all who wait for the same answer."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


class AskedOnce(Generic[Answer]):
    """Requests under way, each for all sessions that ask the same meanwhile.

    None of those who wait ends a request by giving up, as the others still need its answer.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Answer]] = {}

    def __len__(self) -> int:
        """How many requests are under way."""
        return len(self._under_way)

    def __contains__(self, question: Hashable) -> bool:
        """Whether the request about a question is under way."""
        return question in self._under_way

    async def ask(self, question: Hashable, request: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Wait for the request about a question, which begins unless it is under way.

        :param request: makes the request; what it returns is for all who ask.
        :raises Exception: whatever the request raises, at each who waits.
        """
        asking = self._under_way.get(question)
        if asking is None:
            asking = self._under_way[question] = asyncio.ensure_future(request())
            asking.add_done_callback(lambda _: self._under_way.pop(question, None))
        return await asyncio.shield(asking)

    def cancel(self) -> None:
        """End all requests under way; who still waits is cancelled too."""
        for asking in tuple(self._under_way.values()):
            asking.cancel()
