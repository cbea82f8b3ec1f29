"""A producer that keeps sending while a test breaks something."""

import threading
import time
from types import TracebackType
from typing import Self

from tests.pulsar.real.support.family import ANSWER_S
from tests.pulsar.real.support.python import PythonFamily
from tests.waiting import until


class Steady:
    """Sends a message every few milliseconds from `with` to its end; each waits as long as it must."""

    def __init__(self, python: PythonFamily, url: str, topic: str, interval_s: float = 0.005) -> None:
        # A window as of a producer that is patient: when it is full, the producer waits itself.
        settings = {"max_pending_messages": 100}
        self.producer = python.produce(url, topic, [], settings=settings)
        self._interval_s = interval_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(ANSWER_S)
        self.producer.close()

    def confirmed(self) -> int:
        """How many are stored so far; none may have failed."""
        published = self.producer.published
        assert all(one.entry for one in published)
        return len(published)

    def goes_on(self, more: int) -> float:
        """Return once so many more are stored, and how many that were a second."""
        began, have = time.monotonic(), self.confirmed()
        until(lambda: self.confirmed() >= have + more, f"{more} more messages")
        return (self.confirmed() - have) / (time.monotonic() - began)

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            self.producer.send([f"steady:{number}"], [], {})
            number += 1
            self._ending.wait(self._interval_s)
