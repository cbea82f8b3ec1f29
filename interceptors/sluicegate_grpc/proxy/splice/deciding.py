"""Decides the messages of a client's calls. A message that has to wait for its decision is work."""

from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import Literal, TypeAlias

from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Breakage, Decision, Method, Operation, Part, Role
from sluicegate.model.methods import Path
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.work import Running, Task, Turn, Work
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.flow import joined
from sluicegate_grpc.proxy.splice.frame_stream import BYTES_SHIFT
from sluicegate_grpc.proxy.splice.messages import (
    PREFIX,
    UnknownEncodingError,
    UnreadableError,
    inflated,
    read_prefix,
    with_prefix,
)
from sluicegate_grpc.proxy.splice.policed_calls import Call, PolicedCalls, Step
from sluicegate_grpc.proxy.splice.requests import Request
from sluicegate_grpc.proxy.splice.responses import Responses
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import Caller, Id
from sluicegate_grpc.semantics.calls.publishing import UNREAD, unknown_id
from sluicegate_grpc.semantics.content_plan import CannotChangeError, Contents
from sluicegate_grpc.semantics.fields import MAX_FIELDS, Missing, Values
from sluicegate_grpc.semantics.status import Refusal

NEW_TOPIC_WORK = 100
"""Further work of a call whose topic is new to the gate, some 200 us; see `frame_stream.WORK_PER_TURN`."""
_FIELDS_SHIFT = 2
"""Each 4 fields (2**2) that are read take one unit of `frame_stream.WORK_PER_TURN`."""

Verdict: TypeAlias = Refusal | Running[Decision | None] | None
"""On a message: None if it passes, why it does not, or the work that decides it later."""
_CONTENT_SHIFT = 1
"""Each 2 fields that are read for policies, in Python objects of their own, take one unit."""


class Deciding:
    """Reads the messages of one connection's calls, has each decided, and forwards it or refuses the call.

    :param connection: the client's.
    :param responses: watches the broker's responses to what passes.
    :param refusals: ends calls.
    :param policed: knows the calls.
    """

    __slots__ = ("_calls", "_connection", "_flow", "_policed", "_refusals", "_responses", "_shared", "_up")

    def __init__(
        self, connection: Connection, responses: Responses, refusals: Refusals, policed: PolicedCalls
    ) -> None:
        self._connection = connection
        self._shared = connection.shared
        self._calls = connection.shared.calls
        self._responses = responses
        self._refusals = refusals
        self._policed = policed
        self._up = connection.up
        self._flow = connection.up.flow

    # -- messages -------------------------------------------------------------------------------------

    def advance(self, call: Call, now_ns: int) -> None:
        """Process the buffered bytes of a call as far as possible."""
        while call.body.chunks and call.body.step is not Step.WAITING:
            if call.body.step is Step.READING:
                if not self._read(call, now_ns):
                    break
                continue
            decided = call.body.release()
            if decided is None:
                self.refuse(call, status.malformed(call.request.path), now_ns)
                return
            self._flow.send(call.outlet, *decided)
        # A message of it may have been refused, which has ended the call.
        if self._policed.calls.get(call.stream) is call and not self._policed.finish(call, now_ns):
            self.refuse(call, status.malformed(call.request.path), now_ns)

    def _read(self, call: Call, now_ns: int) -> bool:
        """Decide the next message; False if it is incomplete, held or refused."""
        if call.body.size < PREFIX:
            return False
        first = call.body.chunks[0].payload
        packed, size = read_prefix(first if len(first) >= PREFIX else joined(call.body.chunks))
        there = min(call.body.size - PREFIX, size)
        # A message in many small frames would cost the square of its size if each frame had it read again.
        if there < size and (packed or there < call.body.worth_reading):
            return self._may_come(call, size, now_ns)
        data = call.body.read(there)
        try:
            if packed:
                data = inflated(data[PREFIX : PREFIX + size], call.request.encoding, self._most)
                values = call.request.plans.request.read(data, 0, len(data))
            else:
                values = call.request.plans.request.read(data, PREFIX, PREFIX + there, PREFIX + size)
        except UnknownEncodingError:
            text = f"Compression {call.request.encoding!r} is not known to the gateway. Use gzip or deflate."
            return self.refuse(call, Refusal(status.UNIMPLEMENTED, text), now_ns)
        except UnreadableError:
            values = Missing.MALFORMED
        if packed:
            self._charge(values, len(data))
        if values is Missing.MORE:
            return self._may_come(call, size, now_ns)
        if isinstance(values, Missing):
            return self.refuse(call, status.malformed(call.request.path), now_ns)
        message = slice(0, None) if packed else slice(PREFIX, PREFIX + size)
        return self._decide(call, values, data, message, size, is_whole=there == size, now_ns=now_ns)

    def _charge(self, values: Values | Missing, size: int) -> None:
        """Charge what it took to inflate and read a compressed message, of which its frames tell nothing."""
        left = 0
        if isinstance(values, Values):
            left = values.left
        else:  # how much of it was inflated and read is not known
            size = self._most
        self._up.charge((size >> BYTES_SHIFT) + (MAX_FIELDS - left >> _FIELDS_SHIFT))

    def _decide(
        self,
        call: Call,
        values: Values,
        data: bytes,
        message: slice,
        size: int,
        *,
        is_whole: bool,
        now_ns: int,
    ) -> bool:
        """Decide a message whose relevant fields are read.

        :param message: where it, or its beginning, is in `data`, which is decompressed.
        :param size: as it comes.
        """
        wants_name = values.name is None and self._shared.calls.wants_name(call.request.known_method, values)
        new_id = self._new_id(call, values)
        # The name may stand anywhere in it; and what is to be encoded again has to be there.
        if not is_whole and (wants_name or new_id is not None):
            return self._may_come(call, size, now_ns)
        if wants_name:
            self.name(call.request, values, data[message])
        if self._shared.aliases is not None and new_id is not None:
            try:
                renamed = self._shared.aliases.rename(data[message], *new_id)
            except ValueError:
                return self.refuse(call, status.malformed(call.request.path), now_ns)
            self._instead(call, PREFIX + size, with_prefix(renamed))
            size = len(renamed)
        tail = None if is_whole else call.request.plans.request.tail(values, -PREFIX)
        call.body.announce(PREFIX + size, tail)
        verdict = self._verdict(call, values, now_ns)
        if verdict is Missing.MORE:
            return self._may_come(call, size, now_ns)
        return self.follow(call, verdict, now_ns)

    def _new_id(self, call: Call, values: Values) -> tuple[Path, int] | None:
        """The path of an id that the broker does not know, and the id that replaces it."""
        if not self._shared.aliases or call.request.length is not None:  # its length is in its headers
            return None
        return self._shared.aliases.path(call.request.known_method, values.producer, values.attachment)

    def _instead(self, call: Call, size: int, message: bytes) -> None:
        """Replace the first message of a call.

        :raises NoRoomError: if there is no memory for it.
        """
        chunk = self._flow.own(call.outlet, message)
        for taken in call.body.take(size):
            self._flow.drop(call.outlet, taken)
        call.body.put_back([chunk])

    @staticmethod
    def name(request: Request, values: Values, message: bytes) -> None:
        """Read the name of a producer with an unknown id."""
        named = request.plans.named.read(message, 0, len(message))
        values.name = (named.name if isinstance(named, Values) else None) or ""

    @property
    def _most(self) -> int:
        return self._shared.limits.message_bytes

    def _may_come(self, call: Call, size: int, now_ns: int) -> bool:
        """Wait for more of a message, or refuse it if it is too large to buffer; always False."""
        if size > self._most:
            self._shared.count(GrpcEvent.MESSAGE_TOO_LARGE)
            text = f"Message of {size} bytes cannot be read by the gateway, which keeps up to {self._most}"
            self.refuse(call, Refusal(status.RESOURCE_EXHAUSTED, text), now_ns)
        return False

    def follow(self, call: Call, verdict: Verdict, now_ns: int) -> bool:
        """Carry a verdict out; False if the message waits or is refused."""
        if verdict is None:
            call.admit()
            self._policed.flush(call.stream)
            return True
        if isinstance(verdict, Refusal):
            return self.refuse(call, verdict, now_ns)
        call.wait_for(verdict)
        return False

    def refuse(self, call: Call, refusal: Refusal, now_ns: int) -> bool:
        """Refuse a call; always False."""
        self._shared.count(GrpcEvent.CALL_REFUSED)
        owed = call.body.owed  # before the end, which drops the credit that is still to be sent
        if owed is not None:
            owed += self._up.pending(call.stream)
        self._policed.end(call, now_ns)
        has_ended, is_up, alone = call.has_ended, call.head.is_up, not call.has_response
        self._refusals.refuse(call.stream, refusal, has_ended=has_ended, is_up=is_up, alone=alone, owed=owed)
        return False

    # -- verdicts ----------------------------------------------------------------------------------------

    def _verdict(self, call: Call, values: Values, now_ns: int) -> Verdict | Literal[Missing.MORE]:
        """The verdict on a message; MORE if policies read it and it is not all there."""
        gates = self._shared.services.gates
        known = gates.compiled
        verdict = self._ask(call, call.request.known_method, values, now_ns)
        if gates.compiled != known:  # or topics that are made up would hold the loop for long in one turn
            self._connection.up.charge(NEW_TOPIC_WORK)
        return verdict

    def _ask(
        self, call: Call, method: Method, values: Values, now_ns: int
    ) -> Verdict | Literal[Missing.MORE]:
        role, calls = method.role, self._calls
        if role is Role.PUBLISH:
            contents = partial(self._contents, call) if call.body.left <= call.body.size else None
            op, decision = calls.publish(method, values, call.caller, now_ns, contents)
            if decision is UNREAD:
                return Missing.MORE
            return self.published(call, method, values, op, decision, now_ns)
        if role is Role.ATTACH_PRODUCER or role is Role.SUBSCRIBE:
            attaching = calls.attaching(method, values, call.caller)
            admit = partial(calls.attachments.admit, attaching, question=self._question(attaching.topic))
            watch = partial(self._responses.attach, call.stream, call.request, attaching)
            return self._begin(call, admit, attaching.topic, watch, now_ns)
        if role is Role.DISPATCH:
            stream = calls.dispatching(method, values, call.caller, now_ns)
            if stream is None:
                return status.refusal(unknown_id("consumer", values.consumer), "")
            admit = partial(stream.admit, question=self._question(stream.topic))
            watch = partial(self._responses.deliver, call.stream, call.request, stream)
            return self._begin(call, admit, stream.topic, watch, now_ns)
        if role is Role.ACKNOWLEDGE:
            calls.acknowledge(method, values, call.caller, now_ns)
        elif role is Role.LOOKUP:
            self._responses.note_topic(call.stream, values.topic)
        elif role is Role.KEEP_ALIVE:
            calls.touch(values.attachment, call.caller, now_ns)
        else:
            leave = partial(calls.detach, method, values, call.caller)
            self._responses.detach(call.stream, call.request, leave)
        self._watch(call)
        return None

    def published(
        self,
        call: Call,
        method: Method,
        values: Values,
        op: Operation,
        decision: Decision | None,
        now_ns: int,
    ) -> Verdict:
        """Follow a decision on a publish."""
        if decision is not None and decision.action is not Action.DELAY:
            if decision.action is not Action.REWRITE:
                return self._refusal(decision, op.topic)
            if (refusal := self._change(call, decision, op, now_ns)) is not None:
                return refusal
            decision = None
        producer = self.to_prove(method, values, call.caller)
        if decision is not None:
            hold = partial(self._calls.hold, op, decision, call.caller, partial(self._contents, call))
            return self._begin(call, hold, op.topic, partial(self._watch, call, producer), now_ns, op)
        self._watch(call, producer)
        return None

    # -- what policies read and change ----------------------------------------------------------------

    def _contents(self, call: Call, parts: Collection[Part]) -> Contents:
        """What policies want to know of the message at hand."""
        try:
            message = self._message(call)
        except UnreadableError:
            return Contents([], "the compression is not valid")
        contents = call.request.plans.contents.read(message, parts)
        self._up.charge((len(message) >> BYTES_SHIFT) + (contents.fields >> _CONTENT_SHIFT))
        return contents

    def _message(self, call: Call) -> bytes:
        """The message at hand, decompressed.

        :raises UnreadableError: if it cannot be.
        """
        data = joined(call.body.chunks)[: call.body.left]
        packed, _ = read_prefix(data)
        message = data[PREFIX:]
        return inflated(message, call.request.encoding, self._most) if packed else message

    def _change(self, call: Call, rewrite: Decision, op: Operation, now_ns: int) -> Refusal | None:
        """Give the message at hand other headers; why that cannot be done, if it cannot."""
        try:
            if call.request.length is not None:
                raise CannotChangeError("the request says how long it is in content-length")
            changed = call.request.plans.contents.changed(self._message(call), rewrite.headers)
            self._instead(call, call.body.left, with_prefix(changed))
        except (CannotChangeError, UnreadableError, NoRoomError) as error:
            self._shared.count(GrpcEvent.HEADERS_UNCHANGED)
            self._calls.abandon(op, call.caller, now_ns)
            return status.unchanged(rewrite, op.topic, str(error) or "there is no memory for it")
        self._up.charge(len(changed) >> BYTES_SHIFT - 1)
        call.body.announce(PREFIX + len(changed))
        return None

    def to_prove(self, method: Method, values: Values, caller: Caller) -> Id | None:
        """The producer of a publish, if the broker's response is to confirm it."""
        if self._shared.aliases is not None and method.producer and not method.by_connection:
            return values.producer
        if not self._calls.attachments.unconfirmed:  # as nearly always
            return None
        return self._calls.unconfirmed_by(method, values, caller)

    def _begin(
        self,
        call: Call,
        work: Callable[[Turn, Hold], Work[Decision | None]],
        topic: str,
        watch: Callable[[], None],
        now_ns: int,
        publish: Operation | None = None,
    ) -> Verdict:
        """Have work decide a message that may have to wait.

        :param watch: has the broker's response watched if the message passes.
        :param publish: the operation, of which policies may change headers.
        """

        def end(decision: Decision | None, now_ns: int) -> Refusal | None:
            if decision is not None:
                if publish is None or decision.action is not Action.REWRITE:
                    return self._refusal(decision, topic)
                if (refusal := self._change(call, decision, publish, now_ns)) is not None:
                    return refusal
            watch()
            return None

        def decided(decision: Decision | None, now_ns: int) -> None:
            if self.follow(call, end(decision, now_ns), now_ns):
                self.advance(call, now_ns)

        task: Task[Decision | None] = Task(self._connection.wait, decided, now_ns)
        made = task.begin(work(task, Hold(self._shared.max_hold_ns)))
        return made if isinstance(made, Running) else end(made, now_ns)

    def _question(self, topic: str) -> Hashable:
        return self._shared.brokers.question(topic) if self._shared.brokers.question is not None else None

    def _refusal(self, decision: Decision, topic: str) -> Refusal:
        if decision.action is Action.DELAY:
            self._shared.count(GrpcEvent.HOLD_TIMED_OUT)
        elif decision.breaks is Breakage.CONNECTION:
            self._connection.life.break_off(decision)
        return status.refusal(decision, topic)

    def _watch(self, call: Call, producer: Id | None = None) -> None:
        """Watch the response to a call that passes, if it tells something new."""
        request = call.request
        if producer is not None:
            self._responses.prove(call.stream, request, producer)
        elif request.claim and call.caller.principal != request.claim.principal:
            self._responses.accept(call.stream, request)
