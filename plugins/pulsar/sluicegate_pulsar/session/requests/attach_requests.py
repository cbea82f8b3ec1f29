"""Requests that attach something, and may have to wait in the gateway before they are forwarded.

A PRODUCER and a SUBSCRIBE take the same steps. The subscriptions are listed if the request may create one;
the subscription is admitted, then the producer or consumer, once the rate of new attachments allows it. Other
commands of the client pass meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import Admission, taking
from sluicegate.sessions.work import Running, Task, Turn, Wait, Work
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.own_frames import error
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.requests.awaited import Awaited
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, OnResponse
from sluicegate_pulsar.session.shared.refusals import consumer_refusal
from sluicegate_pulsar.session.shared.shared import Shared
from sluicegate_pulsar.session.shared.subscriptions import ListSubscriptions

_MAX_NAME = 1024
"""Characters of a producer's and of a subscription's name, as of a topic's."""
_HELD_OVERHEAD = 2_500
"""Bytes that a held request takes besides its frame and what was read of it."""
_NO_ROOM = "too many bytes are held by the gateway"


class Request(Admission):
    """One attach request, from its decision to its forwarding or refusal.

    :param number: the client's id of the producer or consumer.
    :param request_id: of the request.
    :param frame: the whole frame, which is kept if it has to wait.
    :param attach: adds the producer or consumer.
    :param create: creates the subscription, if it does not exist; None if none is asked for.
    :param admitted: called with the request, its gate and the time, right before it is forwarded to the
        broker.
    :param hold: how long it may wait.
    :param wait: the connection's.
    :param decided: called if it had to wait: the request, its gate (None if it was refused), the time.
    :param now_ns: monotonic time.
    """

    __slots__ = ("admitted", "frame", "hold", "number", "request_id", "task")

    def __init__(
        self,
        number: int,
        request_id: int,
        frame: bytes,
        attach: Operation,
        create: Operation | None,
        admitted: "Admitted",
        hold: Hold,
        wait: Wait,
        decided: "Callable[[Request, Gate | None, int], None]",
        now_ns: int,
    ) -> None:
        super().__init__(attach, create)
        self.number = number
        self.request_id = request_id
        self.frame = frame
        self.admitted = admitted
        self.hold = hold
        self.task: Task[Gate | None] = Task(wait, partial(decided, self), now_ns)
        """Takes its places; returns the gate that admitted it, or None once it was refused."""

    @property
    def held_bytes(self) -> int:
        """Memory that it takes while it is held."""
        return 2 * len(self.frame) + _HELD_OVERHEAD

    def forget_frame(self) -> None:
        """Keep only what the broker's response is for, which may take long to come: a schema may be large."""
        self.frame, self.admitted = b"", _already


Admitted: TypeAlias = Callable[[Request, Gate, int], None]
"""`(request, its gate, now_ns)`"""


def _already(request: Request, gate: Gate, now_ns: int) -> None:
    """For a request that was admitted."""


class Waiting:
    """The requests of one kind and one connection.

    :param shared: the front's state.
    :param connection: where they come from.
    :param refusal: code and text for a decision about what attaches, and a topic.
    :param timed_out: the event that is counted when a request was held long enough.
    """

    __slots__ = ("_asked", "_connection", "_refusal", "_shared", "_timed_out", "held")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        refusal: Callable[[Decision, str], tuple[ServerError, str]],
        timed_out: PulsarEvent,
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._refusal = refusal
        self._timed_out = timed_out
        self.held: dict[int, Request] = {}
        """Those that wait, by number."""
        self._asked: dict[int, Awaited] = {}
        """Those that were forwarded and have no response, by number."""

    def request(
        self,
        number: int,
        request_id: int,
        frame: bytes,
        attach: Operation,
        subscription: str | None,
        admitted: Admitted,
        now_ns: int,
    ) -> Handled:
        """Decide a new request; parameters as for `Request`.

        :param subscription: what it creates if it does not exist; None if none is asked for.
        :return: PASS if its frame passes unchanged, TAKEN if it was answered or is held.
        """
        create = None
        if subscription is not None:
            names = (attach.topic, attach.principal, attach.client)
            create = Operation(OperationKind.CREATE_SUBSCRIPTION, *names, subscription=subscription)
        hold = Hold(self._shared.max_hold_ns)
        wait = self._connection.wait
        request = Request(
            number, request_id, frame, attach, create, admitted, hold, wait, self._decided, now_ns
        )
        made = request.task.begin(self._attaching(request, request.task))
        if isinstance(made, Running):
            return self._keep(request, now_ns)
        return PASS if self._settled(request, made, now_ns) else TAKEN

    def has_short_names(self, request_id: int, *names: str) -> bool:
        """Whether names that clients choose are short enough to be kept; refuses the request if not."""
        longest = max(map(len, names))
        if longest <= _MAX_NAME:
            return True
        text = f"a name of {longest} characters, expected at most {_MAX_NAME}"
        self.refuse(request_id, ServerError.NOT_ALLOWED_ERROR, text)
        return False

    # -- deciding -------------------------------------------------------------------------------------

    def _gate(self, request: Request, now_ns: int) -> Gate:
        return self._shared.gates.get(request.attach.topic, self._connection.client.exempt, now_ns)

    def _attaching(self, request: Request, turn: Turn) -> Work[Gate | None]:
        """Take the places of a request; the gate that admitted it, or None if it is refused."""
        topic, gate, listings = request.attach.topic, partial(self._gate, request), self._shared.subscriptions
        refusal = self._refusal

        def decide(gate: Gate, now_ns: int) -> Decision | None:
            nonlocal refusal
            decision = request.decide(gate, now_ns)
            is_subscription = request.create is not None and not request.is_admitted
            refusal = consumer_refusal if is_subscription else self._refusal
            return decision

        refused = yield from taking(
            request, turn, request.hold, gate, decide, listings, ListSubscriptions(topic)
        )
        if refused is None:
            return gate(turn.now_ns)
        if refused.action is Action.DELAY:
            self._shared.count(self._timed_out)
        self.refuse(request.request_id, *refusal(refused, topic))
        return None

    def _settled(self, request: Request, gate: Gate | None, now_ns: int) -> bool:
        """A request is decided; True if its frame is to be forwarded."""
        if gate is not None:
            request.admitted(request, gate, now_ns)
        return gate is not None

    def refuse(self, request_id: int, code: ServerError, text: str) -> Handled:
        """Answer a request with an error; it does not pass."""
        self._connection.send_down(error(request_id, code, text))
        return TAKEN

    # -- holding --------------------------------------------------------------------------------------

    def _keep(self, request: Request, now_ns: int) -> Handled:
        """Keep a request that waits; refuses it if memory is short. It does not pass now."""
        if not self._connection.memory.take(request.held_bytes):
            request.task.close(now_ns)
            return self.refuse(request.request_id, ServerError.SERVICE_NOT_READY, _NO_ROOM)
        self.held[request.number] = request
        return TAKEN

    def _decided(self, request: Request, gate: Gate | None, now_ns: int) -> None:
        """A request that was held is decided."""
        self._let_go(request)
        frame = request.frame  # read before `forwarded` forgets it
        if self._settled(request, gate, now_ns):
            self._connection.send_up(frame)

    def _let_go(self, request: Request) -> None:
        self._connection.memory.give(request.held_bytes)
        del self.held[request.number]

    # -- forwarded ------------------------------------------------------------------------------------

    def forwarded(self, request: Request, on_response: OnResponse) -> None:
        """A request is forwarded.

        :param on_response: called with the broker's response.
        """

        def answered(response: pb.BaseCommand, now_ns: int) -> Handled:
            # By now another request may be awaited under this number: the client has closed and reopened.
            if self._asked.get(request.number) is awaited:
                del self._asked[request.number]
            return on_response(response, now_ns)

        request.forget_frame()
        awaited = self._asked[request.number] = self._connection.requests.expect(request.request_id, answered)

    def closing(self, number: int, request_id: int) -> None:
        """The client's request to close a producer or consumer is forwarded.

        :param request_id: of that request.
        """
        awaited = self._asked.pop(number, None)
        if awaited is not None:
            self._connection.requests.expect_close(request_id, awaited)

    # -- giving up ------------------------------------------------------------------------------------

    def give_up(self, number: int, now_ns: int) -> bool:
        """The client has cancelled a request, or has disconnected.

        :return: True if it was held: it is never forwarded.
        """
        request = self.held.get(number)
        if request is None:
            return False
        self._let_go(request)
        request.task.close(now_ns)
        return True

    def closed(self, now_ns: int) -> None:
        """The connection is closed."""
        for number in list(self.held):
            self.give_up(number, now_ns)
