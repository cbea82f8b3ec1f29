"""Consumer groups: who consumes what, and whether it may.

Members are seen when they join, by the classic protocol (JoinGroup) or by KIP-848 (ConsumerGroupHeartbeat);
groups also when they commit offsets without members. Reading offsets creates nothing and passes unread.
"""

from collections.abc import Callable, Collection

from sluicegate.broker import Buffer
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_kafka.codec import errors, groups
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.connection import MAX_TOPICS, Connection, Handler, check_topics
from sluicegate_kafka.listing import ListGroups
from sluicegate_kafka.pending import Expected
from sluicegate_kafka.refusals import group_code
from sluicegate_kafka.shared import Shared
from sluicegate_kafka.suspended import Suspended

MemberKey = tuple[str, str]
_MAX_MEMBERS = 1_000
"""Group members on one connection; clients have one, and everyone may name as many groups as he likes."""
_ACCEPTED = frozenset({errors.NONE, errors.MEMBER_ID_REQUIRED})


class Grouping:
    """The consumer groups that one connection takes part in."""

    __slots__ = ("_added", "_attaching", "_connection", "_deadline_ns", "_members", "_shared")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._members: dict[MemberKey, dict[str, tuple[Gate, Operation]]] = {}
        self._attaching: dict[tuple[MemberKey, str], Operation] = {}
        self._added: list[str] = []
        """Topics that the join at hand has attached its member to so far."""
        self._deadline_ns = 0
        """Until when the join at hand may be held; 0 if it is not."""

    @property
    def handlers(self) -> dict[int, Handler]:
        """What this room answers for."""
        return {
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.LEAVE_GROUP: self._leave,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_in_transaction,
        }

    def has_topic(self, topic: str) -> bool:
        """Whether a member on this very connection consumes the topic."""
        return any(topic in attached for attached in self._members.values())

    # -- the classic protocol ---------------------------------------------------------------------

    def _join(self, frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        join = groups.read_join_group(frame, head)
        key = (join.group, join.instance_id or join.member_id or f"joining {self._connection.peer}")
        refused = self._attach(key, join.topics, self._join, frame, head, now_ns)
        if isinstance(refused, Suspended):
            return refused
        if refused is not None:
            code = self._code(refused)
            self._connection.outstanding.answer(
                groups.refuse_join_group(head.version, head.correlation_id, code)
            )
            return False

        def joined(response: bytes, now_ns: int) -> Buffer:
            error, member_id = groups.join_group_result(response, head.version)
            self._settle(key, error, join.instance_id or member_id)
            return response

        self._connection.outstanding.expect(Expected(head.correlation_id, joined))
        return True

    def _leave(self, frame: bytes, head: RequestHead, now_ns: int) -> bool:
        group, members = groups.read_leave_group(frame, head)
        for member in members:
            self._detach((group, member))
        self._connection.outstanding.expect(head.correlation_id)
        return True

    # -- KIP-848 ----------------------------------------------------------------------------------

    def _heartbeat(self, frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        beat = groups.read_consumer_group_heartbeat(frame, head)
        key = (beat.group, beat.instance_id or beat.member_id or f"joining {self._connection.peer}")
        if beat.epoch < 0:
            self._detach(key)
        elif beat.topics is not None:
            refused = self._attach(key, beat.topics, self._heartbeat, frame, head, now_ns)
            if isinstance(refused, Suspended):
                return refused
            if refused is not None:
                self._connection.outstanding.answer(
                    groups.refuse_consumer_group_heartbeat(
                        head.version, head.correlation_id, self._code(refused)
                    )
                )
                return False
            if beat.epoch == 0 or not beat.member_id:
                return self._expect_member(head, key, beat.instance_id)
        self._connection.outstanding.expect(head.correlation_id)
        return True

    def _expect_member(self, head: RequestHead, key: MemberKey, instance_id: str | None) -> bool:
        """The broker may refuse who joins; in version 0 it chooses the member id."""

        def joined(response: bytes, now_ns: int) -> Buffer:
            result = groups.consumer_group_heartbeat_result(response, head.version)
            self._settle(key, result[0], instance_id or result[1])
            return response

        self._connection.outstanding.expect(Expected(head.correlation_id, joined))
        return True

    # -- groups without members -------------------------------------------------------------------

    def _commit(self, frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        commit = groups.read_offset_commit(frame, head)
        return self._subscribe(
            commit.group, commit.topics, self._commit, groups.refuse_offset_commit, frame, head, now_ns
        )

    def _commit_in_transaction(self, frame: bytes, head: RequestHead, now_ns: int) -> bool | Suspended:
        commit = groups.read_txn_offset_commit(frame, head)
        return self._subscribe(
            commit.group,
            commit.topics,
            self._commit_in_transaction,
            groups.refuse_txn_offset_commit,
            frame,
            head,
            now_ns,
        )

    def _subscribe(
        self,
        group: str,
        topics: Collection[str],
        handler: Handler,
        refuse: Callable[[bytes, RequestHead, int], bytes],
        frame: bytes,
        head: RequestHead,
        now_ns: int,
    ) -> bool | Suspended:
        """Offsets create a subscription where the group has none yet on that topic."""
        check_topics(len(topics))
        if self._must_ask(group, topics, now_ns):
            return Suspended(handler, frame, head, question=ListGroups())
        for topic in topics:
            gate = self._gate(topic, now_ns)
            decision = gate.decide(self._operation(OperationKind.CREATE_SUBSCRIPTION, topic, group), now_ns)
            if decision is not None:
                self._connection.outstanding.answer(refuse(frame, head, self._code(decision)))
                return False
        self._connection.outstanding.expect(head.correlation_id)
        return True

    # -- attachments ------------------------------------------------------------------------------

    def _attach(
        self,
        key: MemberKey,
        topics: Collection[str],
        handler: Handler,
        frame: bytes,
        head: RequestHead,
        now_ns: int,
    ) -> Decision | Suspended | None:
        """Attach a member to all its topics or to none; topics it no longer names are detached."""
        group = key[0]
        check_topics(len(topics))
        if self._must_ask(group, topics, now_ns):
            return Suspended(handler, frame, head, question=ListGroups())
        attached = self._topics_of(key)
        for topic in topics:
            if topic in attached:
                continue
            decision = self._attach_one(self._gate(topic, now_ns), topic, key, attached, now_ns)
            if decision is None:
                self._added.append(topic)
                continue
            if decision.action is Action.DELAY:
                wake_ns = self._hold_until(decision, now_ns)
                return Suspended(handler, frame, head, wake_ns=wake_ns) if wake_ns else decision
            for undone in self._added:
                self._detach_topic(key, undone)
            if not attached:
                self._members.pop(key, None)
            self._settled_here()
            return decision
        self._settled_here()
        for topic in set(attached) - set(topics):
            self._detach_topic(key, topic)
        self._shared.members.joined(self._connection, group, frozenset(topics))
        return None

    def _topics_of(self, key: MemberKey) -> dict[str, tuple[Gate, Operation]]:
        """What a member is attached to; nothing yet if it is new."""
        attached = self._members.get(key)
        if attached is None:
            if len(self._members) >= _MAX_MEMBERS:
                raise ProtocolError(f"more than {_MAX_MEMBERS} group members on one connection")
            if sum(map(len, self._members.values())) > MAX_TOPICS:
                raise ProtocolError(f"group members for more than {MAX_TOPICS} topics on one connection")
            attached = self._members[key] = {}
        return attached

    def _hold_until(self, decision: Decision, now_ns: int) -> int:
        """When to ask again for the join at hand; 0 if it was held long enough.

        The topics that it got so far stay attached: it would never get more than the rate of attaching lets
        through at once if it had to begin again each time. Nor does the client's next attempt.
        """
        if not self._deadline_ns:
            self._deadline_ns = now_ns + self._shared.max_hold_ns
        if now_ns >= self._deadline_ns:
            self._settled_here()
            self._shared.count("join_hold_timed_out")
            return 0
        return min(now_ns + decision.delay_ns, self._deadline_ns)

    def _settled_here(self) -> None:
        """The join at hand goes on or was answered."""
        self._added.clear()
        self._deadline_ns = 0

    def _attach_one(
        self, gate: Gate, topic: str, key: MemberKey, attached: dict[str, tuple[Gate, Operation]], now_ns: int
    ) -> Decision | None:
        known = gate.state.subscriptions.get(key[0])
        existed = known is not None and known.exists
        subscribe = self._operation(OperationKind.CREATE_SUBSCRIPTION, topic, key[0])
        decision = gate.decide(subscribe, now_ns)
        if decision is not None:
            return decision
        # One that is held is asked again as the same operation, or it would be counted as another.
        operation = self._attaching.pop((key, topic), None)
        if operation is None:
            operation = self._operation(OperationKind.ATTACH_CONSUMER, topic, key[0])
            operation.consumer = "/".join(key)
        self._release_fetcher(gate)
        decision = gate.decide(operation, now_ns)
        if decision is not None and decision.action is Action.DELAY:
            self._attaching[key, topic] = operation
        if decision is None:
            attached[topic] = (gate, operation)
        elif not existed:
            gate.detach(subscribe)
        return decision

    def _release_fetcher(self, gate: Gate) -> None:
        """Who fetched before he joined, as after the loss of his coordinator, is the same consumer."""
        without_group = gate.state.subscriptions.get("")
        if without_group is not None:
            with gate.state.lock:
                without_group.consumers.release(self._connection.fetcher)

    def _settle(self, key: MemberKey, error: int, member: str) -> None:
        """The broker has answered: keep the member under the name it goes by, or let it go."""
        if error not in _ACCEPTED:
            self._detach(key)
            return
        if not member or member == key[1] or key not in self._members:
            return
        renamed = (key[0], member)
        attached = self._members[renamed] = self._members.pop(key)
        for gate, operation in attached.values():
            consumers = gate.state.subscription(key[0]).consumers
            consumers.rename(operation.consumer, "/".join(renamed))
            operation.consumer = "/".join(renamed)

    def _must_ask(self, group: str, topics: Collection[str], now_ns: int) -> bool:
        """Whether the broker must be asked which groups exist before any topic could refuse this one."""
        listing = self._shared.listing
        for topic in topics:
            gate = self._gate(topic, now_ns)
            known = gate.state.subscriptions.get(group)
            if (known is not None and known.exists) or not gate.asks(OperationKind.CREATE_SUBSCRIPTION):
                continue
            if not listing.fresh(now_ns):
                return True
            listing.inform(gate.state)
        return False

    def _code(self, refused: Decision) -> int:
        return group_code(refused, self._connection.software)

    def _gate(self, topic: str, now_ns: int) -> Gate:
        return self._shared.gate(topic, self._connection.exempt, now_ns)

    def _operation(self, kind: OperationKind, topic: str, group: str) -> Operation:
        connection = self._connection
        return Operation(
            kind, topic, principal=connection.principal, client=connection.client, subscription=group
        )

    def _detach(self, key: MemberKey) -> None:
        for topic in list(self._members.get(key, ())):
            self._detach_topic(key, topic)
        if self._members.pop(key, None) is not None:
            self._shared.members.left(self._connection, key[0])

    def _detach_topic(self, key: MemberKey, topic: str) -> None:
        gate, operation = self._members[key].pop(topic)
        gate.detach(operation)

    def closed(self, now_ns: int) -> None:
        """The connection is gone, and its members with it."""
        for key in list(self._members):
            self._detach(key)
