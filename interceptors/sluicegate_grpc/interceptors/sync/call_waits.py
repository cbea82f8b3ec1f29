"""Waiting in a thread for what a call enforcer waits for."""

from collections.abc import Callable, Iterable
from threading import Event
from typing import TypeVar

from sluicegate.sessions.work import Ask
from sluicegate_grpc.interceptors.client_side import Deadline
from sluicegate_grpc.interceptors.enforcer import Delivery, Waiting, seconds_left
from sluicegate_grpc.semantics.status import RefusedError, too_late

Result = TypeVar("Result")
ListSubscriptions = Callable[[str], Iterable[str] | None]


class EndedError(Exception):
    """The call that waits has ended: cancelled, past its deadline, or its peer is gone."""


class Patience:
    """Lets a call wait until it may proceed or ends.

    :param watch: `watch(callback)` calls it once the call has ended, and returns False if it has ended
        already; None if there is no such signal.
    :param deadline: of a call that gRPC does not have yet, and so cannot end.
    """

    __slots__ = ("_deadline", "_ended", "_event")

    def __init__(
        self,
        watch: Callable[[Callable[[], None]], bool] | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self._deadline = deadline
        self._event = Event()
        self._ended = False
        if watch is not None and not watch(self.end):
            self._ended = True

    def end(self) -> None:
        """The call has ended."""
        self._ended = True
        self._event.set()

    def wake(self) -> None:
        """Stop waiting: there may be room."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait, or stop early when there is room.

        :raises EndedError: if the call has ended.
        :raises RefusedError: if its deadline has come.
        """
        left = self._deadline.left_s() if self._deadline is not None else None
        if not self._ended:
            self._event.wait(seconds if left is None else min(left, seconds))
        self._event.clear()
        if self._ended:
            raise EndedError
        if self._deadline is not None and self._deadline.left_s() == 0:
            raise RefusedError(too_late())


def finish(waiting: Waiting[Result], patience: Patience, lists: ListSubscriptions | None = None) -> Result:
    """Block until a call may proceed; if it ends meanwhile, its place is given up.

    :param lists: lists the subscriptions of a topic.
    :raises RefusedError: if it may not.
    :raises EndedError: if it has ended.
    """
    try:
        wait = next(waiting)
        while True:
            names = None
            if isinstance(wait, Ask):
                names = lists(str(wait.question)) if lists is not None else None
            else:
                patience.wait(seconds_left(wait))
            wait = waiting.send(names)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        waiting.close()


class Paced:
    """A stream of messages to one consumer, which is woken when there is room."""

    def __init__(self, delivery: Delivery, patience: Patience) -> None:
        self._delivery = delivery
        self._patience = patience
        delivery.on_room(patience.wake)

    def passes(self, data: bytes) -> bool:
        """Block until a message may be sent; False to drop it.

        :raises EndedError: if the stream has ended.
        """
        passes = self._delivery.pass_on(data)
        return passes if isinstance(passes, bool) else finish(passes, self._patience)

    def close(self, *, has_left: bool = True) -> None:
        """The stream has ended."""
        self._delivery.close(has_left=has_left)
