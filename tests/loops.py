"""An event loop in a thread of its own, beside the test's."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from tests.waiting import LONG_S

T = TypeVar("T")


class LoopThread:
    """Runs from now on until `end`.

    :param name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do something on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def end(self) -> None:
        """Cancel what is under way, and end the loop; idempotent."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(LONG_S)
            assert not self._thread.is_alive(), "something on the loop does not end when it is cancelled"

    def _run(self) -> None:
        # Unlike a loop that is stopped and closed, this leaves no call behind that was never awaited.
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._ending.wait())
