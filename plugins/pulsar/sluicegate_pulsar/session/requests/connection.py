"""State of one connection that its handlers share, and their pending work.

A handler returns the commands that take the place of its frame. Work that goes on later sends by the
connection; the session keeps all of it in order with the frames that pass unread.
"""

from typing import Final

from sluicegate.broker import Buffer, Command, NextTurn, ToClient, ToUpstream
from sluicegate.decisions.ids import with_id
from sluicegate.engine.budget import Budget
from sluicegate.model import Breakage, CloseReason, Decision, SessionClose
from sluicegate.sessions.questions import Questions
from sluicegate.sessions.timers import Timers
from sluicegate.sessions.work import TURN, Resume, Until, Waits
from sluicegate_pulsar.codec.metadata import MESSAGES_PER_SLICE
from sluicegate_pulsar.codec.own_frames import UNREADABLE
from sluicegate_pulsar.session.requests.awaited import Requests
from sluicegate_pulsar.session.requests.client_identity import Client
from sluicegate_pulsar.session.requests.handling import TAKEN, Handled
from sluicegate_pulsar.session.requests.reading_stops import Reading
from sluicegate_pulsar.session.requests.session_memory import Memory

_PER_SLICE = 250
"""Waiting messages that are forwarded in one turn of the event loop: some 2 ms."""
_ATTACHING_WORK = MESSAGES_PER_SLICE // 10
"""The work of a producer or consumer that attaches: 40 us, 400 us where a gate has to be compiled."""

BROKER_SIZE: Final = 5 * 1024 * 1024
"""Largest message where a broker does not say: older ones do not, and have no other."""


class Connection:
    """One client connection.

    :param peer: the client's address, `host:port`.
    :param budget: bytes that all sessions may hold together.
    :param most_requests: with so many waiting for their responses, nothing more is read from the client.
    """

    __slots__ = (
        "_turn_left",
        "_work",
        "broker_size",
        "client",
        "closing",
        "memory",
        "out",
        "questions",
        "reading",
        "requests",
        "timers",
    )

    def __init__(self, peer: str, budget: Budget, most_requests: int) -> None:
        self.client = Client(peer)
        self.memory = Memory(budget)
        self.broker_size = BROKER_SIZE
        """The largest message that the broker takes, in bytes; as it says in CONNECTED."""
        self.reading = Reading()
        """Of the client's frames."""
        self.requests = Requests(self.client, self.reading, most_requests, self.close)
        self.out: list[Command] = []
        """What is sent, in order; the session takes it."""
        self.questions: Questions[Resume] = Questions()
        """Questions to the front."""
        self.timers = Timers()
        """Work that goes on at a later time."""
        self.closing: tuple[CloseReason, str] | None = None
        """Why the connection is to end: counter and detail."""
        self._work = 0
        """Work that was charged since others had their turn."""
        self._turn_left = _PER_SLICE

    def accepted(self, broker_size: int) -> None:
        """The broker has accepted the client, and said how large a message may be."""
        self.broker_size = broker_size

    def close(self, counter: CloseReason, detail: str = "") -> None:
        """End the connection once everything is sent."""
        self.closing = self.closing or (counter, detail)

    def break_off(self, decision: Decision) -> Handled:
        """Close the connection, as a policy says that tests clients; nothing more is read or forwarded.

        Before that a response is sent that cannot be read, if the policy breaks that.

        :return: that nothing takes the place of the frame.
        """
        if decision.breaks is Breakage.RESPONSE:
            self.send_down(UNREADABLE)
        self.close(SessionClose.FAULT_INJECTED, with_id(decision.text, decision.id))
        self.reading.stop()
        return TAKEN

    def send_up(self, *frames: Buffer) -> None:
        """Send frames to the broker."""
        self.out.extend(map(ToUpstream, frames))

    def send_down(self, *frames: Buffer) -> None:
        """Send frames to the client."""
        self.out.extend(map(ToClient, frames))

    @property
    def has_work(self) -> bool:
        """Whether handlers have, or may have, left work for the session."""
        return bool(self.out or self.closing or self.questions.new or self.timers or self.reading.stops)

    # -- waiting ------------------------------------------------------------------------------------

    def wait(self, waits: Waits, resume: Resume) -> None:
        """Resume work once what it waits for has come; nothing is read from the client until then.

        While it waits for a time, the client is read.
        """
        if isinstance(waits, Until):
            self.timers.at(waits.at_ns, lambda now_ns: resume(now_ns, None))
        elif self.questions.ask(NextTurn() if waits is TURN else waits.question, resume):
            self.reading.stop()

    def answered(self, question: object, now_ns: int) -> None:
        """The front has answered: resume what waits for it.

        A failure is an answer too: what the front has not learned is decided by `on_unknown`.
        """
        self._turn_left = _PER_SLICE
        waiting = self.questions.answered(question)
        if waiting:
            self.reading.resume()
        for resume in waiting:
            resume(now_ns, None)

    def run_due(self, now_ns: int) -> None:
        """Resume what waits for a time that has come."""
        self._turn_left = _PER_SLICE
        self.timers.run_due(now_ns)

    # -- turns --------------------------------------------------------------------------------------

    def may_go_on(self) -> bool:
        """Whether one more waiting message may proceed in this turn."""
        if self._turn_left <= 0 or self.closing is not None:
            return False
        self._turn_left -= 1
        return True

    def charge_work(self, work: int) -> None:
        """Count what takes longer than frames do: after a slice's worth, other clients have their turn.

        :param work: in messages of a batch that are walked; `MESSAGES_PER_SLICE` of them are a slice.
        """
        self._work += work
        if self._work >= MESSAGES_PER_SLICE:
            self._work = 0
            self.give_way()

    def attaches(self) -> None:
        """Count an attach request."""
        self.charge_work(_ATTACHING_WORK)

    def give_way(self) -> None:
        """Handle the client's next frames after other clients' turns."""
        self.wait(TURN, _read_on)


def _read_on(now_ns: int, answer: object) -> None:
    """Nothing but the client's frames has waited for this turn."""
