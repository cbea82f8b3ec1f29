"""State of one connection that its handlers share, and its one way to wait."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from sluicegate.broker import Buffer, Close, Command, NextTurn, ToClient, ToUpstream
from sluicegate.decisions.ids import with_id
from sluicegate.engine.budget import Budget
from sluicegate.model import ANONYMOUS, CloseReason, Decision, SessionClose
from sluicegate.sessions.pieces import NO_ROOM, NoRoomError, Pieces
from sluicegate.sessions.questions import Questions
from sluicegate.sessions.work import Ask, Resume, Running, Task, Until, Waits, Work
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.request_sizes import TooLargeError
from sluicegate_kafka.events import KafkaClose, KafkaEvent
from sluicegate_kafka.session.requests.outcomes import Expected, Later, Owed, Result
from sluicegate_kafka.session.requests.pending import Outstanding
from sluicegate_kafka.session.requests.states import NEXT, Event, State

Identity: TypeAlias = tuple[str, str, str]
"""Principal, host and client id: the same for all connections of one client."""


INJECTED = -848
"""Correlation id of the gateway's own requests; responses are matched by their order."""
MAX_TOPICS = 10_000
"""Topics in one request."""
TOPIC_BYTES = 6_000
"""About how much memory a place on a topic takes where no other client has one; 2 kB where others have."""
PARTITION_BYTES = 65
"""About how much memory a partition takes that a client is known to fetch, or to be assigned."""
TOPICS_PER_SLICE = 10
"""Topics that are decided before others have their turn. One without a compiled gate costs some 70 us."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A question to the broker: a whole request of the gateway's own, whose correlation id is `INJECTED`.

    The answer is the response, without its length.
    """

    request: bytes


@dataclass(frozen=True, slots=True)
class _HalfSent:
    """Asks when half of the responses that may be owed are sent."""


HALF_SENT: Final = Ask(_HalfSent())


def check_topics(count: int) -> None:
    """Refuse a request that names too many topics.

    :raises ProtocolError: if it does.
    """
    if count > MAX_TOPICS:
        raise ProtocolError(f"{count} topics in one request, expected up to {MAX_TOPICS}")


class Output:
    """What one connection has for its gateway.

    :param counts: events of all connections, by name.
    """

    __slots__ = ("_counts", "closing", "commands", "injected")

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.commands: list[Command] = []
        """In order; the session takes them out."""
        self.closing: Close | None = None
        """Comes after everything else."""
        self.injected: list[Buffer] = []
        """Requests of the gateway's making, which go upstream between the client's."""

    def count(self, event: KafkaEvent) -> None:
        """Count an event."""
        self._counts[str(event)] += 1

    def close(self, counter: CloseReason, detail: str) -> None:
        """Close the connection; the first reason counts."""
        self.closing = self.closing or Close(counter, detail)

    def flush_injected(self) -> None:
        """No part of a client's request is still to go upstream: the gateway's own may."""
        self.commands.extend(map(ToUpstream, self.injected))
        self.injected.clear()


class Connection:
    """One client connection.

    :param peer: the client's address, `host:port`.
    :param node: name of the listener that it came to.
    :param budget: bytes that all clients may hold together.
    :param most_owed: how many responses may be owed before no further request is read.
    :param counts: as for `Output`.
    """

    __slots__ = (
        "client_id",
        "due",
        "exempt",
        "last_ns",
        "node",
        "output",
        "outstanding",
        "peer",
        "principal",
        "questions",
        "software",
        "state",
    )

    def __init__(self, peer: str, node: str, budget: Budget, most_owed: int, counts: Counter[str]) -> None:
        self.peer = peer
        self.node = node
        """The listener that it came to: each stands for one node, or for bootstrapping."""
        self.state = State.NEW
        self.client_id = ""
        """As its last request says; never a proof of anything."""
        self.principal = ANONYMOUS
        """Set only after the broker accepted it."""
        self.exempt = False
        """Whether the principal skips counts, rates and factors."""
        self.software = ""
        """Name of the client library, as it says itself (KIP-511); empty for old clients."""
        self.outstanding = Outstanding(budget, most_owed)
        """Responses that are owed to the client."""
        self.output = Output(counts)
        self.questions: Questions[Resume] = Questions()
        """Questions to the front."""
        self.due: list[tuple[int, Resume]] = []
        """Work that waits for a time; the session takes it out."""
        self.last_ns: Callable[[], int] = int
        """Tells when the client last sent anything; asked only where its silence matters."""

    # -- who is connected --------------------------------------------------------------------------

    @property
    def client(self) -> str:
        """Client id and peer address, which identify this client in log lines."""
        return f"{self.client_id}@{self.peer}"

    @property
    def identity(self) -> Identity:
        """What a client's connections have in common."""
        return (self.principal, self.peer.rsplit(":", 1)[0], self.client_id)

    def happened(self, event: Event) -> None:
        """Take on the state that an event leads to, if it leads to another."""
        self.state = NEXT[self.state].get(event, self.state)

    def break_off(self, decision: Decision) -> None:
        """Close the connection without a response, as a policy says that tests clients."""
        self.output.close(SessionClose.FAULT_INJECTED, with_id(decision.text, decision.id))

    def names_itself(self, client_id: str) -> None:
        """A request carries another client id than the one before."""
        self.client_id = client_id

    def names_software(self, software: str) -> None:
        """The client says which library it uses."""
        self.software = software

    def accepted(self, principal: str, *, exempt: bool) -> None:
        """The broker has accepted the client's login; or whom the policies exempt has changed."""
        self.principal, self.exempt = principal, exempt

    # -- when it was heard -------------------------------------------------------------------------

    def heard_by(self, last_ns: Callable[[], int]) -> None:
        """Have `last_ns` asked when the client last sent anything."""
        self.last_ns = last_ns

    def is_silent(self, now_ns: int, longest_ns: int) -> bool:
        """Whether the client has been silent for a time and waits for no response."""
        return not self.outstanding and self.last_ns() <= now_ns - longest_ns

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self, waits: Waits, resume: Resume) -> None:
        """Have work resumed once what it waits for has come."""
        if waits is None:
            self.questions.ask(NextTurn(), resume)
        elif isinstance(waits, Until):
            self.due.append((waits.at_ns, resume))
        elif waits is HALF_SENT:
            self.outstanding.when_half_sent(resume)
        elif isinstance(waits.question, Injected):
            self.send(waits.question.request, Expected(INJECTED, partial(_answered, resume)))
        else:
            self.questions.ask(waits.question, resume)

    def send(self, request: Buffer, owed: Owed | None) -> None:
        """Send a request of the gateway's making upstream, in the client's name and between its requests.

        :param request: a whole request.
        :param owed: the broker's response to it; None if it sends none.
        """
        self.output.injected.append(request)
        if owed is not None:
            self.outstanding.queue.append(owed)


class Inflow:
    """What one direction of a connection receives: it is read in order, and kept where it cannot be read yet.

    What is kept is the start of a partial frame, or what came behind work that waits.

    :param connection: the client's.
    :param budget: bytes that all clients may hold together.
    :param send: makes the command for what passes unread.
    :param read: `(bytes, how many of them have passed, now_ns)`: reads frames; -1 if they were kept.
    :param malformed: why the connection is closed if a frame is.
    """

    __slots__ = (
        "_budget",
        "_charged",
        "_connection",
        "_malformed",
        "_read",
        "_send",
        "pieces",
        "task",
        "unread",
    )

    def __init__(
        self,
        connection: Connection,
        budget: Budget,
        send: type[ToUpstream] | type[ToClient],
        read: Callable[[bytes, int, int], None],
        malformed: CloseReason,
    ) -> None:
        self._budget = budget
        self._connection = connection
        self._send = send
        self._read = read
        self._malformed = malformed
        self.pieces = Pieces(budget)
        self.task: Task[Any] | None = None
        """The work that waits: nothing behind it is read, as Kafka keeps the order of requests."""
        self._charged = 0
        """Bytes of the frame that the work is on."""
        self.unread = 0
        """Bytes of the current frame that still pass unread; nothing else is sent that way meanwhile."""

    @property
    def held_bytes(self) -> int:
        """All bytes that are charged."""
        return self.pieces.size + self._charged

    def passes(self, rest: int) -> None:
        """So many bytes of a frame that passes unread are still to come; less than none: have come."""
        self.unread += rest

    def receive(self, data: bytes, passed: int, now_ns: int) -> None:
        """Read bytes, after the first ones, which pass already."""
        try:
            if self.unread and not passed:
                unread, self.unread = self.unread, 0
                self._connection.output.commands.append(self._send(memoryview(data)[:unread]))
                if len(data) > unread:
                    self._read(data[unread:], -1, now_ns)
            elif self.task is not None:
                self.pieces.keep(data)
            elif not self.pieces.size:
                self._read(data, passed, now_ns)
            elif (whole := self.pieces.add(data)) is not None:
                self._read(whole, -1, now_ns)
        except (ProtocolError, NoRoomError) as error:
            self._failed(error)

    def _failed(self, error: ProtocolError | NoRoomError) -> None:
        """Close the connection, as a frame is malformed, or there is no room for it."""
        connection = self._connection
        if isinstance(error, NoRoomError):
            connection.output.close(*NO_ROOM)
            return
        counter = KafkaClose.REQUEST_TOO_LARGE if isinstance(error, TooLargeError) else self._malformed
        is_client = self._send is ToUpstream
        connection.output.close(counter, f"{error} from {connection.client}" if is_client else str(error))

    def begin(
        self, later: Later[Result], frame: bytes, done: Callable[[Result, int], None], now_ns: int
    ) -> Result | Running[Result]:
        """Run the first slice of work; if it waits, the following bytes do, too.

        :param frame: the buffer that it needs meanwhile.
        :param done: gets its result, unless this method returns that.
        :raises NoRoomError: if there is no room for the frame and the work cannot answer that.
        """

        def end(result: Result, now_ns: int) -> None:
            self._discharge()
            done(result, now_ns)
            if self.pieces.size and self._connection.output.closing is None:
                self._read(self.pieces.all(), -1, now_ns)

        has_room = False

        def wait(waits: Waits, resume: Resume) -> None:
            nonlocal has_room
            if self.task is None:
                has_room = self._budget.take(len(frame))
                if not has_room:
                    return  # it asks for nothing: see below
            self._connection.wait(waits, partial(self._go_on, resume))

        # No function here refers to the task: such a cycle would be left to the garbage collector each time.
        task: Task[Result] = Task(wait, end, now_ns)
        made = task.begin(later(task))
        if made is not task:
            return made
        if has_room:
            self.task, self._charged = task, len(frame)
            return made
        try:
            return task.go_on(now_ns, NoRoomError())
        finally:
            task.close(now_ns)

    def pause(self, rest: bytes, waits: Waits, now_ns: int) -> None:
        """Keep bytes until what is waited for has come."""

        def pausing() -> Work[None]:
            yield waits

        self.begin(lambda turn: pausing(), b"", lambda result, now_ns: None, now_ns)
        self.pieces.keep(rest)

    def _go_on(self, resume: Resume, now_ns: int, answer: object) -> None:
        try:
            resume(now_ns, answer)
        except (ProtocolError, NoRoomError) as error:
            self._failed(error)

    def _discharge(self) -> None:
        self.task = None
        self._budget.give(self._charged)
        self._charged = 0

    def drop_partial(self) -> None:
        """Forget the start of a frame, but nothing that came behind work."""
        if self.task is None:
            self.pieces.drop()

    def close(self, now_ns: int) -> None:
        """Close the work, and forget everything."""
        if self.task is not None:
            self.task.close(now_ns)
        self._discharge()
        self.pieces.drop()


def _answered(resume: Resume, response: bytes, now_ns: int) -> None:
    resume(now_ns, response)
