"""State of one connection that its handlers share, and their pending work.

Handlers never return commands: they append what they send to `up` or `down`, and wait and ask here. The
session turns that into commands, in order with the frames that pass unread.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple, TypeAlias

from sluicegate.broker import Buffer, NextTurn
from sluicegate.engine.budget import Budget
from sluicegate.model import ANONYMOUS, CloseReason
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.questions import Questions
from sluicegate.sessions.timers import Timers
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.metadata import MESSAGES_PER_SLICE
from sluicegate_pulsar.events import PulsarClose

Handler: TypeAlias = Callable[[bytes, int, int, int], bool]
"""`(buffer, start, stop, now_ns)` of one whole frame, its total size included: True if it passes
unchanged, False if its handler has dealt with it."""
OnResponse: TypeAlias = Callable[[pb.BaseCommand, int], bool]
"""`(response, now_ns)` -> True if it passes unchanged, False if it was dealt with."""
OnAnswer: TypeAlias = Callable[[int], object]
"""`(now_ns)`: called when the front has answered."""


class Awaited(NamedTuple):
    """A response that is awaited."""

    request_id: int
    on_response: OnResponse


_TYPES = pb.BaseCommand.Type
_OWN_REQUESTS = 2**62
"""Ids of the gateway's own requests; clients count theirs from 0."""
_MAX_REQUESTS = 10_000
"""Requests of one connection whose responses are awaited at once, if reading pauses too late."""
_PER_SLICE = 250
"""Waiting messages that are forwarded in one turn of the event loop: some 2 ms."""
_ATTACHING_WORK = MESSAGES_PER_SLICE // 10
"""The work of a producer or consumer that attaches: 40 us, 400 us where a gate has to be compiled."""
_FEW = 64
"""Up to so many requests do not count as memory."""
_REQUEST_BYTES = 1024
"""Memory of each further one until its response arrives."""


class Connection:
    """One client connection.

    :param peer: the client's address, `host:port`.
    :param budget: bytes that all sessions may hold together.
    :param most_requests: with so many waiting for their responses, nothing more is read from the client.
    """

    __slots__ = (
        "_budget",
        "_cancelled",
        "_closed_by",
        "_is_full",
        "_most_requests",
        "_queued",
        "_requests",
        "_turn_left",
        "_work",
        "client_version",
        "closing",
        "down",
        "exempt",
        "held_bytes",
        "is_proxied",
        "is_ready",
        "on_pause",
        "own_ids",
        "pauses",
        "peer",
        "principal",
        "questions",
        "timers",
        "up",
    )

    def __init__(self, peer: str, budget: Budget, most_requests: int) -> None:
        self.peer = peer
        self._budget = budget
        self._most_requests = most_requests
        self._is_full = False
        self._work = 0
        """Work that was charged since others had their turn."""
        self.principal = ANONYMOUS
        """Set only after the broker accepted it."""
        self.exempt = False
        """Whether the principal skips counts, rates and factors."""
        self.client_version = ""
        """The client library and its version, as it says itself, such as `Pulsar-CPP-v4.2.0`."""
        self.is_proxied = False
        """True if the client asked for a certain broker: it follows lookups through the one address of the
        gateway (`proxy_through_service_url`)."""
        self.is_ready = False
        """True once the broker has accepted the client."""
        self.up: list[Buffer] = []
        """What handlers send to the broker, in order."""
        self.down: list[Buffer] = []
        """What handlers send to the client, in order."""
        self.held_bytes = 0
        """Bytes that rooms keep for this connection, charged to the budget."""
        self.questions: Questions[OnAnswer] = Questions()
        """Questions to the front."""
        self.closing: tuple[CloseReason, str] | None = None
        """Why the connection is to end: counter and detail."""
        self.on_pause: Callable[[], None] = lambda: None
        """Called when frames of the client are no longer handled, even those that were read already."""
        self.own_ids = count(_OWN_REQUESTS)
        """Ids for the gateway's own requests to the broker."""
        self._requests: dict[int, OnResponse] = {}
        """Those that the broker answers soon."""
        self._queued: dict[int, OnResponse] = {}
        """Producers that wait for exclusive access, which may take for ever."""
        self._closed_by: dict[int, Awaited] = {}
        """By id of a request to close: the request to attach that it cancels."""
        self._cancelled: dict[int, OnResponse] = {}
        """Requests to attach whose close the broker answered first; it hardly ever answers them too."""
        self.timers = Timers()
        """Calls at a later time."""
        self._turn_left = _PER_SLICE
        self.pauses = 0
        """Reasons not to read from the client."""

    @property
    def client(self) -> str:
        """Client library and peer address, which identify this client in log lines."""
        return f"{self.client_version}@{self.peer}"

    def close(self, counter: CloseReason, detail: str = "") -> None:
        """End the connection once everything is sent."""
        self.closing = self.closing or (counter, detail)

    # -- memory ------------------------------------------------------------------------------------

    def take(self, size: int) -> bool:
        """Take memory from the budget; False if there is not enough."""
        if not self._budget.take(size):
            return False
        self.held_bytes += size
        return True

    def give(self, size: int) -> None:
        """Give memory back."""
        self._budget.give(size)
        self.held_bytes -= size

    def charge(self, size: int) -> None:
        """Count memory that is used already; below 0 to give it back."""
        if size < 0:
            self.give(-size)
        else:
            self._budget.charge(size)
            self.held_bytes += size

    def keep(self, size: int) -> None:
        """Take memory for what cannot be refused.

        :raises NoRoomError: if there is not enough.
        """
        if not self.take(size):
            raise NoRoomError

    # -- responses --------------------------------------------------------------------------------

    def expect(self, request_id: int, on_response: OnResponse) -> Awaited:
        """Register a handler for the broker's response to a request, of any type.

        :raises ProtocolError: if too many responses are awaited, or one with this id: the two could not
            be distinguished.
        """
        if request_id in self._requests or request_id in self._queued or request_id in self._cancelled:
            raise ProtocolError(f"request id {request_id} twice without a response between")
        if len(self._requests) + len(self._queued) >= _MAX_REQUESTS:
            raise ProtocolError(f"over {_MAX_REQUESTS} requests without a response")
        self._requests[request_id] = on_response
        if len(self._requests) >= self._most_requests and not self._is_full:
            self._is_full = True
            self.pause()
        return Awaited(request_id, on_response)

    def expect_close(self, request_id: int, attach: Awaited) -> None:
        """The client closes what it has asked to attach: forget that request once the close is answered.

        If the close comes first, the broker answers it alone (`ServerCnx.handleCloseProducer`).

        :param request_id: of the request to close.
        :param attach: of the request to attach; nothing is done if it has its response.
        """
        if self._place_of(attach) is not None:
            self._closed_by[request_id] = attach

    def response(self, data: bytes, start: int, stop: int, now_ns: int) -> bool:
        """The broker has responded: call the handler that waits for this request id (`Handler`)."""
        if not self.request_count:
            return True
        command = parse_command(data, start, stop)
        if command.type == _TYPES.SUCCESS:
            request_id = command.success.request_id
        elif command.type == _TYPES.ERROR:
            request_id = command.error.request_id
        else:
            request_id = command.producer_success.request_id
            if not command.producer_success.producer_ready:
                self._queue(request_id)
                return True  # another response follows
        on_response = self._requests.pop(request_id, None) or self._queued.pop(request_id, None)
        if (attach := self._closed_by.pop(request_id, None)) is not None:
            self._forget(attach)
        self._check_room()
        if on_response is None and (cancelled := self._cancelled.pop(request_id, None)) is not None:
            return self._answered_late(command, cancelled, now_ns)
        return on_response is None or on_response(command, now_ns)

    def _answered_late(self, response: pb.BaseCommand, on_response: OnResponse, now_ns: int) -> bool:
        """The broker has answered a request to attach after the close.

        Where it checks the client's rights first, it does not know yet what it is asked to close, and opens
        it afterwards. What the client has closed passes no policy, so the connection ends with it.
        """
        if response.type != _TYPES.ERROR:
            self.close(
                PulsarClose.ATTACHED_AFTER_CLOSE, f"the broker has opened what {self.client} closed before"
            )
        return on_response(response, now_ns)

    def _queue(self, request_id: int) -> None:
        """A producer waits for exclusive access."""
        on_response = self._requests.pop(request_id, None)
        if on_response is not None:
            self._queued[request_id] = on_response
            self._check_room()

    def _place_of(self, awaited: Awaited) -> dict[int, OnResponse] | None:
        """Where a response is awaited; None if it has come."""
        for place in (self._requests, self._queued):
            if place.get(awaited.request_id) is awaited.on_response:
                return place
        return None

    def _forget(self, attach: Awaited) -> None:
        """A request to attach need not get a response, as what it asked for is closed."""
        place = self._place_of(attach)
        if place is not None:
            self._cancelled[attach.request_id] = place.pop(attach.request_id)
            if len(self._cancelled) > _MAX_REQUESTS:
                del self._cancelled[next(iter(self._cancelled))]

    def _check_room(self) -> None:
        """Read from the client again once few enough responses are awaited."""
        if self._is_full and len(self._requests) <= self._most_requests // 2:
            self._is_full = False
            self.resume()

    @property
    def request_count(self) -> int:
        """How many responses are awaited, or may come."""
        return len(self._requests) + len(self._queued) + len(self._cancelled)

    @property
    def request_bytes(self) -> int:
        """Memory of these requests, if they are many."""
        return max(0, self.request_count - _FEW) * _REQUEST_BYTES

    @property
    def awaits_responses(self) -> bool:
        """True if any response is about to come."""
        return bool(self._requests)

    # -- questions to the front ---------------------------------------------------------------------

    def ask(self, question: object, on_answer: OnAnswer) -> None:
        """Have the front answer a question; nothing is read from the client meanwhile."""
        if self.questions.ask(question, on_answer):
            self.pause()

    def charge_work(self, work: int) -> None:
        """Count what takes longer than frames do: after a slice's worth, other clients have their turn.

        :param work: in messages of a batch that are walked; `MESSAGES_PER_SLICE` of them are a slice.
        """
        self._work += work
        if self._work >= MESSAGES_PER_SLICE:
            self._work = 0
            self.ask(NextTurn(), lambda now_ns: None)

    def attaches(self) -> None:
        """Count an attach request."""
        self.charge_work(_ATTACHING_WORK)

    def in_slices(self, slices: Iterator[None]) -> None:
        """Run long work: where it yields, other clients have their turn.

        The client's later frames wait until it is done.
        """
        for _ in slices:
            self.ask(NextTurn(), lambda now_ns: self.in_slices(slices))
            return

    def answered(self, question: object, now_ns: int) -> None:
        """The front has answered: resume what waits for it."""
        waiting = self.questions.answered(question)
        if waiting:
            self.resume()
        for on_answer in waiting:
            on_answer(now_ns)

    # -- time ---------------------------------------------------------------------------------------

    def run_due(self, now_ns: int) -> None:
        """Do what is due."""
        self._turn_left = _PER_SLICE
        self.timers.run_due(now_ns)

    def may_go_on(self) -> bool:
        """Whether one more waiting message may proceed in this turn; if not, try again by a timer."""
        if self._turn_left <= 0:
            return False
        self._turn_left -= 1
        return True

    @property
    def has_work(self) -> bool:
        """Whether handlers have, or may have, left work for the session."""
        return bool(self.up or self.down or self.closing or self.questions.new or self.timers or self.pauses)

    # -- back-pressure ------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading from the client, for one more reason; what was read already waits too."""
        self.pauses += 1
        self.on_pause()

    def resume(self) -> None:
        """Remove one reason to pause."""
        self.pauses -= 1
