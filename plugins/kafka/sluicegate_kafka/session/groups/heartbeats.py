"""Members by KIP-848: a heartbeat joins, leaves and subscribes, and its answer brings the assignment.

Where a broker resolves a pattern, no request names a topic: the assignment does, by topic ids. So an answer
that assigns topics waits until the gateway knows their names, and whether the member may have them. If it may
not, the client is refused, and the gateway takes the member out of its group: it would hold its partitions
until its session ended.
"""

from collections.abc import Sequence
from functools import partial

from sluicegate.broker import Buffer, Command, NextTurn
from sluicegate.model import Action, Decision
from sluicegate_kafka.codec import assignments, errors, group_requests, group_responses
from sluicegate_kafka.codec.assignments import PartitionsById
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.group_requests import ConsumerGroupHeartbeat
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices
from sluicegate_kafka.session.groups.join import Join
from sluicegate_kafka.session.groups.joining import Joining
from sluicegate_kafka.session.groups.waiting import GroupRequest
from sluicegate_kafka.session.requests.connection import INJECTED, MAX_TOPICS, Connection
from sluicegate_kafka.session.requests.held import Held
from sluicegate_kafka.session.requests.sliced import Deciding, Making, Sliced, SlicedResponse, Turn, in_slices
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.readers import MemberKey
from sluicegate_kafka.session.shared.refusals import group_code
from sluicegate_kafka.session.shared.shared import Shared


class _Assignment:
    """An assignment that is withheld from its member."""

    __slots__ = (
        "awaits_groups",
        "awaits_names",
        "beat",
        "frame",
        "has_asked",
        "head",
        "held",
        "join",
        "key",
        "partitions",
    )

    join: Join
    """Attaches its member to the topics, once their names are known."""

    def __init__(
        self,
        head: RequestHead,
        beat: ConsumerGroupHeartbeat,
        key: MemberKey,
        frame: bytes,
        partitions: PartitionsById,
    ) -> None:
        self.head = head
        self.beat = beat
        self.key = key
        self.frame = frame
        """The broker's answer, without its length."""
        self.partitions = partitions
        self.has_asked = False
        """Whether the broker was asked for the names of its topics."""
        self.awaits_names = self.awaits_groups = False
        """Which answers of the broker it waits for."""
        self.held: Held | None = None
        """Its place among the responses, once it has to wait."""


class Heartbeats:
    """The members by KIP-848 of one connection."""

    __slots__ = ("_connection", "_going_on", "_is_listing", "_joining", "_patterns", "_shared", "_waiting")

    def __init__(self, shared: Shared, connection: Connection, joining: Joining) -> None:
        self._shared = shared
        self._connection = connection
        self._joining = joining
        self._patterns: dict[MemberKey, frozenset[str]] = {}
        """Members with a pattern, and the topics that they subscribe to by name."""
        self._waiting: list[_Assignment] = []
        self._going_on: GoingOn | None = None
        self._is_listing = False
        """Whether the broker is asked for its groups."""

    def request(self, turn: Sliced, frame: bytes, head: RequestHead) -> Deciding:
        """Handle a ConsumerGroupHeartbeat, in slices."""
        beat = group_requests.read_consumer_group_heartbeat(frame, head)
        if len(beat.topics or ()) > ENTRIES_PER_SLICE:
            yield
        key = (beat.group, beat.instance_id or beat.member_id or f"joining {self._connection.peer}")
        if beat.epoch < 0:
            self._expect_departure(head, key, beat)
            return True
        if key in self._joining.gave_way and beat.epoch > 0:
            self._patterns.pop(key, None)
            self._connection.outstanding.answer(
                group_responses.refuse_consumer_group_heartbeat(
                    head.version, head.correlation_id, errors.UNKNOWN_MEMBER_ID
                )
            )
            return False
        if beat.regex:
            self._joining.know(key)
            self._patterns.setdefault(key, frozenset())
        elif beat.regex is not None:
            self._patterns.pop(key, None)
        if beat.topics is None:
            self._expect(head, key, beat)
            return True
        return (yield from self._subscribing(head, key, beat).deciding(turn, frame, head))

    def _expect_departure(self, head: RequestHead, key: MemberKey, beat: ConsumerGroupHeartbeat) -> None:
        """A member leaves once the broker confirms it: the broker refuses a false member id."""

        def left(turn: SlicedResponse, response: bytes) -> Making:
            error, _ = group_responses.consumer_group_heartbeat_result(response, head.version)
            if error == errors.NONE or (error == errors.UNKNOWN_MEMBER_ID and not beat.instance_id):
                self._patterns.pop(key, None)
                yield from self._joining.leaving(key)
            return response

        known = key in self._joining
        self._connection.outstanding.expect_if(known, head.correlation_id, in_slices(left))

    def _subscribing(self, head: RequestHead, key: MemberKey, beat: ConsumerGroupHeartbeat) -> GroupRequest:
        """The join that attaches a member to the topics that it names."""
        named = frozenset(beat.topics or ())

        def topics() -> Sequence[str]:
            if key not in self._patterns:
                return tuple(named)
            brought = self._joining.topics(key).keys() - self._patterns[key]
            return tuple(named | brought)  # what the pattern brought stays

        def admitted() -> None:
            if key in self._patterns:
                self._patterns[key] = named
            self._expect(head, key, beat)

        def refusal(code: int) -> bytes:
            if key not in self._joining:
                self._patterns.pop(key, None)
            return group_responses.refuse_consumer_group_heartbeat(head.version, head.correlation_id, code)

        returns = beat.epoch > 0 and key not in self._joining
        join = Join(self._joining, key, topics, returns=returns)
        return GroupRequest(join, admitted, refusal)

    def _expect(self, head: RequestHead, key: MemberKey, beat: ConsumerGroupHeartbeat) -> None:
        """Watch the broker's response to a join; in version 0 it chooses the member id."""
        joins = beat.epoch == 0 or not beat.member_id
        if not (beat.instance_id or beat.member_id):
            self._joining.check_name(key)
            self._joining.unnamed.add(key)

        def answered(turn: SlicedResponse, response: bytes) -> Making:
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
            if error != errors.NONE or not self._shared.follows_assignments:
                return response
            partitions = yield from assignments.heartbeat_assignment_slices(response, head.version)
            if partitions is None:
                return response
            known = beat._replace(member_id=beat.member_id or member_id)
            assignment = _Assignment(head, known, name, response, partitions)
            return (yield from self._assign(assignment, turn))

        follows = joins or key in self._joining or self._shared.follows_assignments
        self._connection.outstanding.expect_if(follows, head.correlation_id, in_slices(answered))

    # -- assignments ------------------------------------------------------------------------------

    def _assign(self, assignment: _Assignment, turn: Turn) -> Slices[Buffer | Held]:
        returns = assignment.beat.epoch > 0 and assignment.key not in self._joining
        assignment.join = Join(
            self._joining, assignment.key, partial(self._topics, assignment), returns=returns
        )
        made = yield from self._settle(assignment, turn)
        if made is not None:
            return made
        head = assignment.head
        later = group_responses.refuse_consumer_group_heartbeat(
            head.version, head.correlation_id, errors.COORDINATOR_LOAD_IN_PROGRESS
        )
        assignment.held = Held(later, turn.now_ns + self._shared.max_hold_ns)
        self._waiting.append(assignment)
        return assignment.held

    def _listed(self, now_ns: int, out: list[Command]) -> None:
        """The broker has listed its groups, or cannot."""
        self._is_listing = False
        if self._going_on is None:
            self._resume(now_ns, out)
        else:
            self._going_on.has_missed = True

    def _resume(self, now_ns: int, out: list[Command]) -> None:
        """Resume the assignments that wait for the list of groups."""
        for assignment in self._waiting:
            assignment.awaits_groups = False
        self._going_on = GoingOn()
        self._going_on.slices = self._go_on(self._going_on)
        self._next_slice(now_ns, out)

    def _next_slice(self, now_ns: int, out: list[Command]) -> None:
        going_on = self._going_on
        if going_on is None:
            return
        going_on.now_ns = now_ns
        for _ in going_on.slices:
            self._connection.questions.ask(NextTurn(), self._next_slice)
            return
        self._going_on = None
        if going_on.has_missed:
            self._resume(now_ns, out)

    def _go_on(self, turn: Turn) -> Slices[None]:
        """Resume assignments."""
        waiting, self._waiting = self._waiting, []
        for assignment in waiting:
            held = assignment.held
            if held is None or not held.is_waiting:
                continue  # it took too long, and the client was told to try again
            made = None
            if not (assignment.awaits_names or assignment.awaits_groups):
                made = yield from self._settle(assignment, turn)
            if made is None:
                self._waiting.append(assignment)
            else:
                frame = with_length([made]) if made is assignment.frame else made
                self._connection.outstanding.settle(held, frame)

    def _settle(self, assignment: _Assignment, turn: Turn) -> Slices[Buffer | None]:
        """The response for the client: the assignment unchanged, or a refusal; None if it must wait."""
        names = self._shared.topic_names
        unknown = [topic_id for topic_id in assignment.partitions if topic_id not in names][:MAX_TOPICS]
        if unknown and not assignment.has_asked:
            assignment.has_asked = assignment.awaits_names = True
            names_of = assignments.ask_topic_names(INJECTED, self._connection.client_id, unknown)
            self._connection.inject(names_of, in_slices(partial(self._named, assignment)))
            return None
        if unknown:  # deleted meanwhile, or hidden from the client, which then cannot fetch them either
            self._shared.counts["assigned_topic_unknown"] += 1
        partitions = {names[each]: taken for each, taken in assignment.partitions.items() if each in names}
        key = assignment.key
        found = yield from assignment.join.deciding(turn)
        if isinstance(found, ListGroups):
            assignment.awaits_groups = True
            if not self._is_listing:
                self._is_listing = True
                self._connection.questions.ask(found, self._listed)
            return None
        if found is None:
            self._joining.confirm(key)
            yield from self._joining.assigning(key, None if unknown else partitions, turn.now_ns)
            return assignment.frame
        yield from assignment.join.refusing(found, turn)
        if found.action is not Action.DELAY:
            self._evict(assignment)
        return self._refusal(assignment.head, found)

    def _topics(self, assignment: _Assignment) -> Sequence[str]:
        """All topics of a member: those that it names, and those that it is assigned."""
        names, named = self._shared.topic_names, self._patterns.get(assignment.key)
        if named is None:
            named = frozenset(self._joining.topics(assignment.key))
        return tuple(named.union([names[each] for each in assignment.partitions if each in names]))

    def _named(self, assignment: _Assignment, turn: SlicedResponse, response: bytes) -> Making:
        """The broker has returned the names of topics."""
        names = yield from assignments.topic_names_slices(response)
        self._shared.learn_topic_names(names)
        assignment.awaits_names = False
        yield from self._go_on(turn)
        return None

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
        self._connection.inject(leave, _ignore)

    def _refusal(self, head: RequestHead, refused: Decision) -> bytes:
        code = group_code(refused, self._connection.software)
        return group_responses.refuse_consumer_group_heartbeat(head.version, head.correlation_id, code)


class GoingOn(Turn):
    """A pass over the waiting assignments, in slices."""

    __slots__ = ("has_missed", "slices")

    slices: Slices[None]

    def __init__(self) -> None:
        super().__init__()
        self.has_missed = False
        """Whether the broker listed its groups meanwhile, for which others may wait."""


def _ignore(response: bytes, now_ns: int) -> None:
    """Ignore the response: a member that cannot leave is expelled when its session ends."""
