"""Work of a session that may have to wait: a generator, which goes on where it stopped.

`yield TURN` lets other clients have their turn. `yield Until(...)` goes on at a time, `yield Ask(...)` once
a question is answered. Whoever runs it closes it when it is not wanted any more, so `finally` gives back
what it has taken.
"""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

Result = TypeVar("Result")


TURN: Final = None
"""Let other clients have their turn. Readers in slices, which wait for nothing else, use a bare `yield`."""


@dataclass(frozen=True, slots=True)
class Until:
    """Go on at a time."""

    at_ns: int
    """Monotonic."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Go on with the answer to a question, which is the value of the `yield`; None if it has no content."""

    question: Hashable


Waits: TypeAlias = Until | Ask | None
"""What work waits for; TURN is None."""
Resume: TypeAlias = Callable[[int, object], None]
"""`(now_ns, answer)`; the answer is None if there is none."""
Wait: TypeAlias = Callable[[Waits, Resume], None]
"""A connection's way to wait: has the function called once, when what is waited for has come."""
Work: TypeAlias = Generator[Waits, Any, Result]


class Turn:
    """The turn of the event loop that a slice runs in.

    :param now_ns: monotonic time.
    """

    __slots__ = ("now_ns",)

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns
        """Monotonic time of the slice at hand."""


class Running(Turn, Generic[Result]):
    """Work under way.

    :param now_ns: monotonic time.
    """

    __slots__ = ("_work", "waits")

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns
        self.waits: Waits = None
        """What it waits for."""
        self._work: Work[Result] | None = None

    def begin(self, work: Work[Result]) -> "Result | Running[Result]":
        """Run its first slice.

        :return: its result, or this object while there is more to do.
        """
        self._work = work
        return self.go_on(self.now_ns)

    def go_on(self, now_ns: int, answer: object = None) -> "Result | Running[Result]":
        """Run its next slice; returns as `begin`.

        :param now_ns: monotonic time.
        :param answer: to its question; an exception is raised where it asked.
        :raises RuntimeError: if it was closed.
        """
        work = self._work
        if work is None:
            raise RuntimeError("work that was closed goes on")
        self.now_ns = now_ns
        try:
            self.waits = work.throw(answer) if isinstance(answer, Exception) else work.send(answer)
        except StopIteration as ended:
            self._work = None
            result: Result = ended.value
            return result
        return self

    def close(self, now_ns: int) -> None:
        """End it: it gives back what it has taken; idempotent."""
        self.now_ns = now_ns
        work, self._work = self._work, None
        if work is not None:
            work.close()


class Task(Running[Result]):
    """Work that its connection resumes until it is done.

    :param wait: the connection's.
    :param done: called with the result and the time, unless the work ends in its first slice.
    :param now_ns: monotonic time.
    """

    __slots__ = ("_done", "_wait")

    def __init__(self, wait: Wait, done: Callable[[Result, int], None], now_ns: int) -> None:
        super().__init__(now_ns)
        self._wait = wait
        self._done: Callable[[Result, int], None] | None = done

    def begin(self, work: Work[Result]) -> Result | Running[Result]:
        """Run the first slice; what follows runs by itself. Returns as `Running.begin`."""
        made = super().begin(work)
        if made is self:
            self._wait(self.waits, self._resume)
        return made

    def close(self, now_ns: int) -> None:
        """End it: it gives back what it has taken, and `done` is not called; idempotent."""
        self._done = None  # a timer may hold this object for long
        super().close(now_ns)

    def _resume(self, now_ns: int, answer: object = None) -> None:
        done = self._done
        if done is None:
            return
        made = self.go_on(now_ns, answer)
        if isinstance(made, Running):
            self._wait(self.waits, self._resume)
        else:
            self._done = None
            done(made, now_ns)
