"""Consumer groups: admission of members and of new subscriptions.

Members are seen when they join, by the classic protocol (JoinGroup) or by KIP-848 (ConsumerGroupHeartbeat);
groups also when they commit offsets without members. Reading offsets creates nothing and passes unread.
"""

from functools import partial

from sluicegate.sessions.work import Turn, Work
from sluicegate_kafka.codec import assignments, committed, errors, group_requests, group_responses
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.assignments import Member, Partitions
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.group_requests import MAX_GROUP_REQUEST, JoinGroup
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.groups.committing import Commit
from sluicegate_kafka.session.groups.heartbeats import Heartbeats
from sluicegate_kafka.session.groups.join import Join
from sluicegate_kafka.session.groups.joining import Joining, noted
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.outcomes import (
    Answer,
    Decided,
    Expected,
    Handler,
    Making,
    Pass,
    deciding,
    in_slices,
    pass_if,
)
from sluicegate_kafka.session.shared.readers import MemberKey
from sluicegate_kafka.session.shared.shared import Shared


class Grouping:
    """The consumer groups that one connection takes part in."""

    __slots__ = ("_connection", "_heartbeats", "_joining", "_shared")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._joining = Joining(shared, connection)
        self._heartbeats = Heartbeats(shared, connection, self._joining)

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers of this package's APIs."""
        return {
            ApiKey.JOIN_GROUP: deciding(self._join),
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._beat,
            ApiKey.LEAVE_GROUP: self._leave,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: deciding(self._heartbeats.request),
            ApiKey.OFFSET_FETCH: self._offsets,
            **dict.fromkeys((ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT), deciding(self._commit)),
        }

    @property
    def places_bytes(self) -> int:
        """About how much memory the members' places take."""
        return self._joining.places_bytes

    # -- the classic protocol ---------------------------------------------------------------------

    def _join(self, turn: Turn, frame: bytes, head: RequestHead) -> Work[Decided]:
        join = yield from group_requests.join_group_slices(frame, head)
        key = (join.group, join.instance_id or join.member_id or f"joining {self._connection.peer}")
        self._joining.check_name(key)
        if not (join.instance_id or join.member_id):
            yield from self._joining.replacing(key)
        returns = bool(join.member_id) and key not in self._joining
        hold_ns = self._shared.limits.max_hold_ns
        attempt = Join(self._joining, key, lambda: join.topics, returns=returns, hold_ns=hold_ns)
        refusal = partial(group_responses.refuse_join_group, head.version, head.correlation_id)
        admitted = partial(self._expect_member, head, key, join)
        return (yield from attempt.admitting(turn, admitted, refusal))

    def _expect_member(self, head: RequestHead, key: MemberKey, join: JoinGroup) -> Pass:
        if not (join.instance_id or join.member_id):
            self._joining.unnamed.add(key)

        def joined(turn: Turn, response: bytes) -> Making:
            error, member_id = group_responses.join_group_result(response, head.version)
            yield from self._joining.settling(key, error, join.instance_id or member_id)
            return response

        return Pass(Expected(head.correlation_id, in_slices(joined)))

    def _sync(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        """Read a member's partitions from the response. A leader's request passes unread: it may be large."""
        if head.end - head.start <= MAX_GROUP_REQUEST:
            key = _key(assignments.read_member(frame, head))
            if self._joining.topics(key):
                return self._expect_assignment(head, key)
        return Pass(head.correlation_id)

    def _expect_assignment(self, head: RequestHead, key: MemberKey) -> Pass:
        def synced(turn: Turn, response: bytes) -> Making:
            error, assignment = assignments.sync_group_result(response, head.version)
            if error == errors.NONE:
                partitions = yield from _partitions(assignment)
                yield from self._joining.assigning(key, partitions, turn.now_ns)
            return response

        return Pass(Expected(head.correlation_id, in_slices(synced)))

    def _beat(self, frame: bytes, head: RequestHead, now_ns: int) -> Decided:
        """A member that was replaced here, or expelled by the broker, has to join again."""
        member = assignments.read_member(frame, head)
        key = _key(member)
        if key in self._joining.gave_way:
            code = errors.UNKNOWN_MEMBER_ID
            return Answer(group_responses.refuse_heartbeat(head.version, head.correlation_id, code))

        def responded(turn: Turn, response: bytes) -> Making:
            if group_responses.heartbeat_error(response, head.version) == errors.UNKNOWN_MEMBER_ID:
                yield from self._joining.leaving(key)
            return response

        # A static member keeps its key when it joins again, and a beat may name it with a false member id.
        known = not member.instance_id and key in self._joining
        return pass_if(known, head.correlation_id, in_slices(responded))

    def _leave(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        group, members = group_requests.read_leave_group(frame, head)

        def left(turn: Turn, response: bytes) -> Making:
            for member in group_responses.members_left(response, head.version, members):
                yield from self._joining.leaving((group, member))
            return response

        known = any((group, member) in self._joining for member in members)
        return pass_if(known, head.correlation_id, in_slices(left))

    # -- offsets ----------------------------------------------------------------------------------

    def _offsets(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        """The offsets where members begin to fetch help to match them with connections."""
        if not self._shared.policed.follows_assignments:
            return Pass(head.correlation_id)
        group = committed.offset_fetch_group(frame, head)

        def fetched(turn: Turn, response: bytes) -> Making:
            by_group = yield from committed.committed_offsets_slices(response, head.version, group)
            for name, offsets in by_group.items():
                yield from noted(self._shared.audiences.committing(self._connection, name, offsets))
            return response

        return Pass(Expected(head.correlation_id, in_slices(fetched)))

    # -- groups without members -------------------------------------------------------------------

    def _commit(self, turn: Turn, frame: bytes, head: RequestHead) -> Work[Decided]:
        """Offsets create a subscription where the group has none yet on that topic."""
        read_commit = yield from group_requests.commit_slices(frame, head)
        commit = Commit(self._shared, self._connection, read_commit.group, read_commit.topics)
        admitted = partial(self._expect_commit, head, commit)
        refusal = partial(group_responses.refuse_commit, frame, head)
        return (yield from commit.admitting(turn, admitted, refusal))

    def _expect_commit(self, head: RequestHead, commit: Commit) -> Pass:
        """Watch whether the broker refuses a new subscription."""

        def committed(turn: Turn, response: bytes) -> Making:
            api_key = ApiKey(head.api_key)
            refused = yield from group_responses.refused_topics_slices(response, api_key, head.version)
            yield from commit.settling(refused, turn.now_ns)
            return response

        return pass_if(commit.is_new, head.correlation_id, in_slices(committed))

    def parting(self) -> Slices[None]:
        """The connection is closed: release its members."""
        yield from self._joining.parting()


def _key(member: Member) -> MemberKey:
    return member.group, member.instance_id or member.member_id


def _partitions(assignment: bytes) -> Slices[Partitions | None]:
    """An assignment of the consumer protocol; None if it is of another kind."""
    try:
        return (yield from assignments.assignment_slices(assignment))
    except ProtocolError:
        return None
