"""Members by KIP-848: a heartbeat joins, leaves and subscribes, and its response brings the assignment.

Where a broker resolves a pattern, no request names a topic: the assignment does, by topic ids. So a response
that assigns topics waits until the gateway knows their names, and whether the member may have them. If it may
not, the client is refused, and the gateway takes the member out of its group: it would hold its partitions
until its session ended.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sluicegate.broker import Buffer
from sluicegate.model import Action
from sluicegate.sessions.work import TURN, Ask, Running, Task, Turn, Work
from sluicegate_kafka.codec import assignments, errors, group_requests, group_responses
from sluicegate_kafka.codec.assignments import PartitionsById
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.group_requests import ConsumerGroupHeartbeat
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.groups.join import Join
from sluicegate_kafka.session.groups.joining import Joining
from sluicegate_kafka.session.requests.connection import INJECTED, MAX_TOPICS, Connection, Injected
from sluicegate_kafka.session.requests.outcomes import (
    Answer,
    Decided,
    Expected,
    Finished,
    Making,
    Pass,
    ignore,
    in_slices,
    pass_if,
)
from sluicegate_kafka.session.shared.readers import MemberKey
from sluicegate_kafka.session.shared.refusals import group_code
from sluicegate_kafka.session.shared.shared import Shared


class _Assignment(NamedTuple):
    """An assignment that is withheld from its member."""

    head: RequestHead
    beat: ConsumerGroupHeartbeat
    key: MemberKey
    frame: bytes
    """The broker's response, without its length."""
    partitions: PartitionsById


class Heartbeats:
    """The members by KIP-848 of one connection."""

    __slots__ = ("_connection", "_joining", "_patterns", "_shared")

    def __init__(self, shared: Shared, connection: Connection, joining: Joining) -> None:
        self._shared = shared
        self._connection = connection
        self._joining = joining
        self._patterns: dict[MemberKey, frozenset[str]] = {}
        """Members with a pattern, and the topics that they subscribe to by name."""

    def request(self, turn: Turn, frame: bytes, head: RequestHead) -> Work[Decided]:
        """Handle a ConsumerGroupHeartbeat, in slices."""
        beat = group_requests.read_consumer_group_heartbeat(frame, head)
        if len(beat.topics or ()) > ENTRIES_PER_SLICE:
            yield TURN
        key = (beat.group, beat.instance_id or beat.member_id or f"joining {self._connection.peer}")
        if beat.epoch < 0:
            return self._expect_departure(head, key, beat)
        if key in self._joining.gave_way and beat.epoch > 0:
            self._patterns.pop(key, None)
            return Answer(_refusal(head, errors.UNKNOWN_MEMBER_ID))
        if beat.regex:
            self._joining.know(key)
            self._patterns.setdefault(key, frozenset())
        elif beat.regex is not None:
            self._patterns.pop(key, None)
        if beat.topics is None:
            return self._expect(head, key, beat)
        return (yield from self._subscribing(turn, head, key, beat))

    def _expect_departure(self, head: RequestHead, key: MemberKey, beat: ConsumerGroupHeartbeat) -> Pass:
        """A member leaves once the broker confirms it: the broker refuses a false member id."""

        def left(turn: Turn, response: bytes) -> Making:
            error, _ = group_responses.consumer_group_heartbeat_result(response, head.version)
            if error == errors.NONE or (error == errors.UNKNOWN_MEMBER_ID and not beat.instance_id):
                self._patterns.pop(key, None)
                yield from self._joining.leaving(key)
            return response

        known = key in self._joining
        return pass_if(known, head.correlation_id, in_slices(left))

    def _subscribing(
        self, turn: Turn, head: RequestHead, key: MemberKey, beat: ConsumerGroupHeartbeat
    ) -> Work[Decided]:
        """Attach a member to the topics that it names."""
        named = frozenset(beat.topics or ())

        def topics() -> Sequence[str]:
            if key not in self._patterns:
                return tuple(named)
            brought = self._joining.topics(key).keys() - self._patterns[key]
            return tuple(named | brought)  # what the pattern brought stays

        def admitted() -> Pass:
            if key in self._patterns:
                self._patterns[key] = named
            return self._expect(head, key, beat)

        def refusal(code: int) -> bytes:
            if key not in self._joining:
                self._patterns.pop(key, None)
            return _refusal(head, code)

        returns = beat.epoch > 0 and key not in self._joining
        join = Join(self._joining, key, topics, returns=returns, hold_ns=self._shared.limits.max_hold_ns)
        return (yield from join.admitting(turn, admitted, refusal))

    def _expect(self, head: RequestHead, key: MemberKey, beat: ConsumerGroupHeartbeat) -> Pass:
        """Watch the broker's response to a join; in version 0 it chooses the member id."""
        joins = beat.epoch == 0 or not beat.member_id
        if not (beat.instance_id or beat.member_id):
            self._joining.check_name(key)
            self._joining.unnamed.add(key)

        def responded(turn: Turn, response: bytes) -> Making:
            error, member_id = group_responses.consumer_group_heartbeat_result(response, head.version)
            name = key
            if joins:
                name = yield from self._joining.settling(key, error, beat.instance_id or member_id)
                if name not in self._joining:
                    self._patterns.pop(key, None)
                elif name != key and key in self._patterns:
                    self._patterns[name] = self._patterns.pop(key)
            elif error == errors.NONE:
                self._joining.confirm(key)
            elif error == errors.UNKNOWN_MEMBER_ID and not beat.instance_id:
                self._patterns.pop(key, None)
                yield from self._joining.leaving(key)
            if error != errors.NONE or not self._shared.policed.follows_assignments:
                return response
            partitions = yield from assignments.heartbeat_assignment_slices(response, head.version)
            if partitions is None:
                return response
            known = beat._replace(member_id=beat.member_id or member_id)
            return self._assign(_Assignment(head, known, name, response, partitions), turn.now_ns)

        follows = joins or key in self._joining or self._shared.policed.follows_assignments
        return pass_if(follows, head.correlation_id, in_slices(responded))

    # -- assignments ------------------------------------------------------------------------------

    def _assign(self, assignment: _Assignment, now_ns: int) -> Buffer | Finished:
        """Withhold an assignment until the member may have it."""
        try_again = _refusal(assignment.head, errors.COORDINATOR_LOAD_IN_PROGRESS)
        late = Finished(try_again, now_ns + self._shared.limits.max_hold_ns)

        def done(response: Buffer, now_ns: int) -> None:
            frame = with_length([response]) if response is assignment.frame else response
            self._connection.outstanding.settle(late, frame)

        task: Task[Buffer] = Task(self._connection.wait, done, now_ns)
        made = task.begin(self._assigning(assignment, task))
        if isinstance(made, Running):
            late.makes(task)
            return late
        return made

    def _assigning(self, assignment: _Assignment, turn: Turn) -> Work[Buffer]:
        """The response for the client: the assignment unchanged, or a refusal."""
        names, key = self._shared.learned.topic_names, assignment.key
        unknown = yield from self._naming(assignment.partitions)

        def topics() -> Sequence[str]:
            """Those that the member names, and those that it is assigned."""
            named = self._patterns.get(key)
            if named is None:
                named = frozenset(self._joining.topics(key))
            return tuple(named.union([names[each] for each in assignment.partitions if each in names]))

        returns = assignment.beat.epoch > 0 and key not in self._joining
        join = Join(self._joining, key, topics, returns=returns, hold_ns=0)
        refused = yield from join.taking(turn)
        if refused is None:
            taken = {names[each]: theirs for each, theirs in assignment.partitions.items() if each in names}
            self._joining.confirm(key)
            yield from self._joining.assigning(key, None if unknown else taken, turn.now_ns)
            return assignment.frame
        yield from join.refusing(refused)
        if refused.action is not Action.DELAY:
            self._evict(assignment)
        return _refusal(assignment.head, group_code(refused, self._connection.software))

    def _naming(self, partitions: PartitionsById) -> Work[bool]:
        """Learn the names of assigned topics; True if some stay unknown."""
        names = self._shared.learned.topic_names
        unknown = [topic_id for topic_id in partitions if topic_id not in names][:MAX_TOPICS]
        if unknown:
            request = assignments.ask_topic_names(INJECTED, self._connection.client_id, unknown)
            response = yield Ask(Injected(request))
            self._shared.learned.learn_topic_names((yield from assignments.topic_names_slices(response)))
        is_unknown = any(topic_id not in names for topic_id in unknown)
        if is_unknown:  # deleted meanwhile, or hidden from the client, which then cannot fetch them either
            self._shared.count(KafkaEvent.ASSIGNED_TOPIC_UNKNOWN)
        return is_unknown

    def _evict(self, assignment: _Assignment) -> None:
        """Take a refused member out of its group."""
        beat, key = assignment.beat, assignment.key
        self._patterns.pop(key, None)
        self._joining.detach(key)
        leave = assignments.leave_by_heartbeat(
            assignment.head.version,
            INJECTED,
            self._connection.client_id,
            beat.group,
            beat.member_id,
            beat.instance_id,
        )
        # A member that cannot leave is expelled when its session ends.
        self._connection.send(leave, Expected(INJECTED, ignore))


def _refusal(head: RequestHead, code: int) -> bytes:
    return group_responses.refuse_consumer_group_heartbeat(head.version, head.correlation_id, code)
