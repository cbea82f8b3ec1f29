"""Policy enforcement for all kinds of interceptors, without waiting and without gRPC.

A step that may have to wait is a generator of what it waits for: grpc.aio's interceptors wait on their event
loop, the others in their thread. A generator that is closed early releases what it holds.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakMethod

from google.protobuf.descriptor import ServiceDescriptor

from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS, Hold
from sluicegate.model import Action, Decision, MethodMap, Operation, PolicySet, Role
from sluicegate.sessions.work import Ask, Running, Turn, Until, Work
from sluicegate_grpc.checking import check
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import Attaching, Attachments, Caller, Calls, Id, Stream
from sluicegate_grpc.semantics.calls.publishing import UNREAD, unknown_id
from sluicegate_grpc.semantics.content_plan import CannotChangeError, ReadContents
from sluicegate_grpc.semantics.fields import Missing, Values
from sluicegate_grpc.semantics.status import RefusedError

_MAX_CALLERS = 100_000
_MAX_CALLERS_OF_ONE = 100
"""Of one producer or consumer: gRPC tells no interceptor that a connection was closed."""
_LIST_VALID_NS = 1_000_000_000
_LEAST_WAIT_NS = 100_000
_MS = 1_000_000
_DELAY = Action.DELAY
_REWRITE = Action.REWRITE

Result = TypeVar("Result")


Waiting: TypeAlias = Generator[Until | Ask, "Iterable[str] | None", Result]
"""Waits until a time, or until there is room before it. A question is a topic: the caller must `send` its
subscriptions, or None if they cannot be listed."""


def seconds_left(wait: Until) -> float:
    """How long to wait from now on, in seconds."""
    return max(0, wait.at_ns - monotonic_ns()) / 1e9


class Engine(Protocol):
    """What an interceptor needs of the policy engine; `sluicegate.embedded.PolicyEngine` is one."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held around whatever is done with gates."""

    @property
    def policies(self) -> PolicySet:
        """The policies now in force."""

    @property
    def max_hold_ns(self) -> int:
        """Longest time that a call may be held."""

    def gate(self, topic: str, exempt: bool, now_ns: int, /) -> Gate:
        """The gate of a topic."""

    def wall_ms(self, now_ns: int, /) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time."""

    def every_second(self, call: Callable[[int], bool], /) -> None:
        """Have something called about once a second, under the lock, until it returns False."""


class CallEnforcer:
    """Applies the policies of one server or client to its calls.

    :param engine: decides.
    :param methods: which method is which operation.
    :param ghost_release_s: a producer or consumer without a stream or call for this long does not count.
    :param lists: whether someone lists the subscriptions of a topic.
    :param services: descriptors that the map is checked with; others are taken from protobuf's default pool.
    :raises MethodMapError: if some limit would not hold by this map.
    """

    def __init__(
        self,
        engine: Engine,
        methods: MethodMap,
        ghost_release_s: float,
        *,
        lists: bool,
        services: Iterable[ServiceDescriptor] = (),
    ) -> None:
        check(methods, services)
        self.engine = engine
        self.attachments = Attachments(
            engine.gate,
            int(ghost_release_s * 1e9),
            list_valid_ns=_LIST_VALID_NS if lists else None,
            most_callers=_MAX_CALLERS_OF_ONE,
        )
        self.calls = Calls(methods, self.attachments)
        self.unknown_methods = 0
        """Calls of methods that the map does not name; they pass."""
        self.malformed = 0
        """Calls refused as their messages could not be read."""
        self.unchanged = 0
        """Calls refused as a policy changes headers that could not be changed."""
        self._policed = {
            name: Policed(name, method) if method.is_policed else None
            for name, method in methods.methods.items()
        }
        self._callers: dict[tuple[str, str], Caller] = {}
        tick = WeakMethod(self._tick)

        def every_second(now_ns: int) -> bool:
            call = tick()
            if call is not None:
                call(now_ns)
            return call is not None

        engine.every_second(every_second)

    def policed(self, name: str) -> Policed | None:
        """The map's entry for a method; None if no policy applies to it, so that the call passes."""
        policed = self._policed.get(name)
        if policed is None and name not in self._policed:
            self.unknown_methods += 1
        return policed

    def caller(self, principal: str, client: str) -> Caller:
        """The caller of a call.

        :param client: identifies the connection.
        """
        key = (principal, client)
        caller = self._callers.get(key)
        if caller is None:
            if len(self._callers) >= _MAX_CALLERS:
                del self._callers[next(iter(self._callers))]
            caller = self._callers[key] = Caller(principal, client)
        caller.exempt = principal in self.engine.policies.exempt_principals
        return caller

    def caller_of_its_own(self, principal: str, client: str) -> Caller:
        """The caller of a stream of requests; pass it to `stream_ended` at the stream's end."""
        return Caller(principal, client, principal in self.engine.policies.exempt_principals)

    def _tick(self, now_ns: int) -> None:
        self.attachments.release_ghosts(now_ns)

    # -- requests -------------------------------------------------------------------------------------

    def police(
        self, policed: Policed, values: Values | Missing, message: Any, caller: Caller
    ) -> Waiting[Any] | None:
        """Decide a publish, or record a call that always passes.

        :param message: the request, as a handler or the channel gets it.
        :return: None if it may proceed, else what to wait for; that gives the message to proceed with.
        :raises RefusedError: if it is refused, or cannot be read.
        """
        # <hot> Runs for every publish.
        if isinstance(values, Missing):
            raise self._malformed(policed)
        role, now_ns = policed.method.role, monotonic_ns()
        with self.engine.lock:
            if role is not Role.PUBLISH:
                if role is Role.ACKNOWLEDGE:
                    self.calls.acknowledge(policed.method, values, caller, now_ns)
                elif role is Role.KEEP_ALIVE:
                    self.calls.touch(values.attachment, caller, now_ns)
                return None
            contents = partial(policed.read_contents, message) if policed.is_read else None
            op, decision = self.calls.publish(policed.method, values, caller, now_ns, contents)
            if decision is None:
                return None
            contents = contents or partial(policed.read_contents, message)
            if decision is UNREAD:
                policed.is_read = True
                op, decision = self.calls.publish(policed.method, values, caller, now_ns, contents)
                if decision is None:
                    return None
        if decision.action is not _DELAY and decision.action is not _REWRITE:
            raise RefusedError(status.refusal(decision, op.topic))
        return self._late(policed, message, op, decision, caller, contents)

    def _late(
        self,
        policed: Policed,
        message: Any,
        op: Operation,
        decision: Decision,
        caller: Caller,
        contents: ReadContents,
    ) -> Waiting[Any]:
        """A publish that has to wait, or that gets other headers.

        :raises RefusedError: if it is refused, or cannot have them.
        """
        passed: Decision | None = decision
        if decision.action is _DELAY:
            hold = partial(self.calls.hold, op, decision, caller, contents)
            passed = yield from self._admitted(op.topic, hold)
        if passed is None:
            return message
        try:
            return policed.changed(message, passed.headers)
        except CannotChangeError as error:
            self.unchanged += 1
            with self.engine.lock:
                self.calls.abandon(op, caller, monotonic_ns())
            raise RefusedError(status.unchanged(passed, op.topic, str(error))) from None

    def unconfirmed(self, policed: Policed, values: Values | Missing, caller: Caller) -> Id | None:
        """The id of an unconfirmed producer whose publish was forwarded: see `publish_resolved`."""
        if (
            not self.attachments.unconfirmed
            or isinstance(values, Missing)
            or policed.method.role is not Role.PUBLISH
        ):
            return None
        with self.engine.lock:
            return self.calls.unconfirmed_by(policed.method, values, caller)

    def publish_resolved(self, producer: Id | None, *, is_known: bool) -> None:
        """Record the server's response to the publish of an unconfirmed producer.

        :param producer: its id; None has no effect.
        :param is_known: False if the server rejected the message; the producer is then released.
        """
        if producer is not None:
            with self.engine.lock:
                self.attachments.claim_resolved(producer, monotonic_ns(), is_known=is_known)

    def attach(self, policed: Policed, values: Values | Missing, caller: Caller) -> Waiting["Attachment"]:
        """Let a producer or consumer attach.

        :return: (from the generator) the object to report the call's end to.
        :raises RefusedError: if it is refused.
        """
        if isinstance(values, Missing):
            raise self._malformed(policed)
        with self.engine.lock:
            attaching = self.calls.attaching(policed.method, values, caller)
        admit = partial(self.attachments.admit, attaching, question=attaching.topic)
        yield from self._admitted(attaching.topic, admit)
        return Attachment(self, policed, attaching)

    def _admitted(
        self, topic: str, admit: Callable[[Turn, Hold], Work[Decision | None]]
    ) -> Waiting[Decision | None]:
        """Run the work on a call, each slice of it under the lock.

        :return: None, or how it is to be rewritten.
        :raises RefusedError: if it is refused.
        """
        now_ns = monotonic_ns()
        work: Running[Decision | None] = Running(now_ns)
        lock = self.engine.lock
        try:
            with lock:
                made = work.begin(admit(work, Hold(self.engine.max_hold_ns, _LEAST_WAIT_NS)))
            while isinstance(made, Running):
                if isinstance(work.waits, Ask):
                    names = yield work.waits
                    with lock:
                        self.attachments.listed(topic, names, now_ns, monotonic_ns())
                elif work.waits is not None:
                    yield work.waits
                now_ns = monotonic_ns()
                with lock:
                    made = work.go_on(now_ns)
        finally:
            with lock:
                work.close(monotonic_ns())
        if made is not None and made.action is not _REWRITE:
            raise RefusedError(status.refusal(made, topic))
        return made

    def left(self, policed: Policed, values: Values | Missing, caller: Caller) -> None:
        """A producer or consumer has detached."""
        if isinstance(values, Values):
            with self.engine.lock:
                self.calls.detach(policed.method, values, caller, monotonic_ns())

    def stream_ended(self, caller: Caller) -> None:
        """Release a caller whose stream of requests has ended."""
        with self.engine.lock:
            self.attachments.caller_closed(caller, monotonic_ns())

    # -- streams of messages --------------------------------------------------------------------------

    def open(self, policed: Policed, values: Values | Missing, caller: Caller) -> Waiting["Delivery"]:
        """Open a stream of deliveries.

        :raises RefusedError: if its consumer is refused or unknown.
        """
        if isinstance(values, Missing):
            raise self._malformed(policed)
        with self.engine.lock:
            stream = self.calls.dispatching(policed.method, values, caller, monotonic_ns())
        if stream is None or stream.unknown is not None:
            raise RefusedError(status.refusal(unknown_id("consumer", values.consumer), ""))
        yield from self._admitted(stream.topic, partial(stream.admit, question=stream.topic))
        return Delivery(self, policed, stream)

    def _malformed(self, policed: Policed) -> RefusedError:
        self.malformed += 1
        return RefusedError(status.malformed(policed.name))


@dataclass(slots=True, eq=False)
class Attachment:
    """A producer or consumer that was admitted and awaits the broker's response."""

    _enforcer: CallEnforcer
    _policed: Policed
    _attaching: Attaching

    def accepted(self, response: bytes) -> None:
        """The broker has accepted the attachment."""
        values = self._policed.read_response(response)
        broker_id = (
            values.attachment if self._policed.method.attachment and isinstance(values, Values) else None
        )
        with self._enforcer.engine.lock:
            self._enforcer.attachments.attached(self._attaching, broker_id, monotonic_ns())

    def failed(self) -> None:
        """The call failed; does nothing once the broker has accepted it."""
        if not self._attaching.ended:
            with self._enforcer.engine.lock:
                self._enforcer.attachments.failed(self._attaching, monotonic_ns())


@dataclass(slots=True, eq=False)
class Delivery:
    """An open stream of messages to one consumer."""

    _enforcer: CallEnforcer
    _policed: Policed
    _stream: Stream

    def on_room(self, tell: Callable[[], None]) -> None:
        """Have a callback called when waiting may end early; from any thread, under the lock."""
        with self._enforcer.engine.lock:
            self._stream.on_acknowledged(tell)

    def pass_on(self, data: bytes) -> bool | Waiting[bool]:
        """Decide a message.

        :return: True to send it, False to drop it, or what to wait for first.
        """
        # <hot> Runs for every message.
        values = self._policed.read_response(data)
        if isinstance(values, Missing):
            return True  # no client could read it either
        came_ns = monotonic_ns()
        with self._enforcer.engine.lock:
            wait_ns = self._ask(values, came_ns, came_ns)
        if wait_ns == 0:
            return True
        return self._hold(values, came_ns, wait_ns) if wait_ns > 0 else False

    def _hold(self, values: Values, came_ns: int, wait_ns: int) -> Waiting[bool]:
        while wait_ns > 0:
            yield Until(monotonic_ns() + wait_ns)
            with self._enforcer.engine.lock:
                wait_ns = self._ask(values, came_ns, monotonic_ns())
        return wait_ns == 0

    def _ask(self, values: Values, came_ns: int, now_ns: int) -> int:
        """0 to send a message, how long to wait, or -1 to drop it."""
        stream, wall_ms = self._stream, self._enforcer.engine.wall_ms
        gate = stream.gate(now_ns)
        if gate.delay is not None:
            early_ms = stream.early_ms(gate.delay, values, wall_ms(came_ns), wall_ms(now_ns))
            if early_ms > 0:
                return min(early_ms * _MS, LONGEST_WAIT_NS)
        decision = stream.decide(gate, values, values.payload, now_ns)
        if decision is None:
            return 0
        if decision.action is _DELAY:
            return max(decision.delay_ns, _LEAST_WAIT_NS)
        return LONGEST_WAIT_NS if stream.op.reliable else -1

    def close(self, *, has_left: bool = True) -> None:
        """The stream has ended; idempotent.

        :param has_left: False if the server ended it in order; the consumer then still counts as attached.
        """
        if self._stream.open:
            with self._enforcer.engine.lock:
                self._stream.close(monotonic_ns(), has_left=has_left)
