"""A response that is made only after the broker was asked for more; it keeps its place among the others."""

from dataclasses import dataclass

from sluicegate.broker import Buffer, Command, NextTurn
from sluicegate.sessions.work import Ask, Running, Work
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.held import Held


@dataclass(frozen=True, slots=True)
class Injected:
    """A question: a whole request of the gateway's own; the answer is its response, without the length."""

    request: bytes


class LateResponse(Running[Buffer]):
    """The work on one response of the broker. Those behind it are read meanwhile, but not sent.

    :param connection: where it arrived.
    :param response: the broker's, without its length; if the work returns this object, it passes unchanged.
    :param fallback: what the client is told if the work takes too long, with its length.
    :param until_ns: monotonic time until when it may take.
    :param now_ns: monotonic time.
    """

    __slots__ = ("_connection", "_held", "_response")

    def __init__(
        self, connection: Connection, response: bytes, fallback: bytes, until_ns: int, now_ns: int
    ) -> None:
        super().__init__(now_ns)
        self._connection = connection
        self._response = response
        self._held = Held(fallback, until_ns)

    def keeping_place(self, work: Work[Buffer]) -> Buffer | Held:
        """Run the first slice.

        :return: the response, or what keeps its place.
        """
        made = self.begin(work)
        if isinstance(made, Running):
            self._connection.late.add(self)
            self._wait()
            return self._held
        return made

    def close(self, now_ns: int) -> None:
        """End the work: its response is not wanted any more."""
        self._connection.late.discard(self)
        super().close(now_ns)

    def _wait(self) -> None:
        asked = self.waits.question if isinstance(self.waits, Ask) else NextTurn()
        if isinstance(asked, Injected):
            self._connection.inject(asked.request, self._answered)
        else:
            self._connection.questions.ask(asked, self._go_on)

    def _answered(self, response: bytes, now_ns: int) -> None:
        self._step(now_ns, response)

    def _go_on(self, now_ns: int, out: list[Command]) -> None:
        self._step(now_ns, None)

    def _step(self, now_ns: int, answer: object) -> None:
        if self not in self._connection.late:
            return
        if not self._held.is_waiting:  # it took too long, and the client was told to try again
            self.close(now_ns)
            return
        made = self.go_on(now_ns, answer)
        if isinstance(made, Running):
            self._wait()
        else:
            self._connection.late.discard(self)
            frame = with_length([made]) if made is self._response else made
            self._connection.outstanding.settle(self._held, frame)
