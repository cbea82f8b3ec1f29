"""Creation of topics: by CreateTopics, CreatePartitions, and by Metadata requests of missing topics."""

from collections.abc import Collection, Iterable
from functools import partial

from sluicegate.broker import Buffer
from sluicegate.decisions.ids import with_id
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome
from sluicegate.sessions.work import TURN, Turn, Work
from sluicegate_kafka.codec import errors, metadata, topic_changes
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.codec.topic_changes import RefusedTopic
from sluicegate_kafka.session.addressing import Addressing
from sluicegate_kafka.session.requests.connection import INJECTED, TOPICS_PER_SLICE, Connection
from sluicegate_kafka.session.requests.outcomes import (
    Answer,
    Decided,
    Expected,
    Handler,
    Making,
    Pass,
    deciding,
    ignore,
    in_slices,
)
from sluicegate_kafka.session.shared.shared import MAX_TOPIC_NAME, Shared

_KINDS = {
    ApiKey.CREATE_TOPICS: OperationKind.CREATE_TOPIC,
    ApiKey.CREATE_PARTITIONS: OperationKind.CREATE_PARTITIONS,
}
_DECIDED_PER_SLICE = 100
"""Topics that are decided in one slice, some 10 us each."""


class Creating:
    """Decides which topics one connection creates.

    :param shared: the front's state.
    :param connection: the client's.
    :param addressing: rewrites the addresses in Metadata responses.
    """

    __slots__ = ("_addressing", "_connection", "_shared")

    def __init__(self, shared: Shared, connection: Connection, addressing: Addressing) -> None:
        self._shared = shared
        self._connection = connection
        self._addressing = addressing

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers of this package's APIs."""
        changes = deciding(self._change)
        return {**dict.fromkeys(_KINDS, changes), ApiKey.METADATA: deciding(self._look_up)}

    # -- on request ---------------------------------------------------------------------------------

    def _change(self, turn: Turn, frame: bytes, head: RequestHead) -> Work[Decided]:
        """Refuse some topics of a request, and have the broker create the others."""
        if not self._shared.gates.creation_is_policed:
            return Pass(head.correlation_id)
        request = yield from topic_changes.topic_changes_slices(frame, head)
        kind = _KINDS[ApiKey(head.api_key)]
        limited = yield from self._limited(kind, (topic.name for topic in request.topics), turn)
        kept, refused = [], []
        for count, topic in enumerate(request.topics, 1):
            decision = (
                self._decide(kind, topic.name, topic.partitions, turn) if topic.name in limited else None
            )
            if decision is None:
                kept.append(topic)
            else:
                refused.append(RefusedTopic(topic.name, _code(decision), with_id(decision.text, decision.id)))
            if count % _DECIDED_PER_SLICE == 0:
                yield TURN
        if not refused:
            return Pass(head.correlation_id)
        if not kept:
            return Answer(topic_changes.refuse_changes(head, refused))
        owed = Expected(head.correlation_id, partial(self._changed, head, refused))
        self._connection.send(topic_changes.subset_changes(request, kept), owed)
        return None

    @staticmethod
    def _changed(head: RequestHead, refused: list[RefusedTopic], response: bytes, now_ns: int) -> Buffer:
        return topic_changes.with_refused_changes(response, head, refused)

    # -- by first use -------------------------------------------------------------------------------

    def _look_up(self, turn: Turn, frame: bytes, head: RequestHead) -> Work[Decided]:
        """Ask for topics without creating those that are missing, if a policy applies to their creation.

        Only the response tells which are missing.
        """
        if not self._shared.gates.creation_is_policed:
            return self._addressing.rewritten(head)
        request = yield from metadata.metadata_request_slices(frame, head)
        names = request.topics if request.creates else []
        limited = yield from self._limited(OperationKind.CREATE_TOPIC, names, turn)
        if not limited:
            return self._addressing.rewritten(head)
        if head.version == 0:
            raise ProtocolError("metadata version 0 creates topics; policies apply from version 1 on")
        responded = partial(self._responded, head, limited)
        self._connection.send(
            metadata.without_creating(frame, head, request),
            Expected(head.correlation_id, in_slices(responded)),
        )
        return None

    def _responded(self, head: RequestHead, limited: Collection[str], turn: Turn, response: bytes) -> Making:
        """Have the missing topics created that may be.

        The client is told that they are unknown, as brokers do, and asks again.
        """
        missing = yield from metadata.unknown_topics_slices(
            response, max(head.version, metadata.FIRST_ASKING)
        )
        allowed = []
        for count, name in enumerate(missing, 1):
            if name not in limited or self._decide(OperationKind.CREATE_TOPIC, name, 0, turn) is None:
                allowed.append(name)
            if count % _DECIDED_PER_SLICE == 0:
                yield TURN
        if allowed:
            request = metadata.named_metadata(allowed, self._connection.client_id, INJECTED, creates=True)
            self._connection.send(request, Expected(INJECTED, ignore))
        if head.version < metadata.FIRST_ASKING:
            response = metadata.as_older(response, head.version)
        return self._addressing.readdressed(response, head, turn.now_ns)

    # -- deciding -----------------------------------------------------------------------------------

    def _limited(self, kind: OperationKind, names: Iterable[str], turn: Turn) -> Slices[set[str]]:
        """The topics to which a policy of this kind applies; in slices."""
        limited = set()
        for count, name in enumerate(names, 1):
            # A name that is too long is the broker's to refuse.
            if len(name) <= MAX_TOPIC_NAME and self._gate(name, turn).asks(kind):
                limited.add(name)
            if count % TOPICS_PER_SLICE == 0:
                yield
        return limited

    def _decide(self, kind: OperationKind, topic: str, partitions: int, turn: Turn) -> Decision | None:
        """Ask the gate; None if the broker may create the topic or its partitions."""
        connection, gate = self._connection, self._gate(topic, turn)
        op = Operation(kind, topic, connection.principal, connection.client, partitions=partitions)
        decision = gate.decide(op, turn.now_ns)
        if decision is None or decision.action is Action.REWRITE:
            return None
        gate.abandon(op, turn.now_ns)  # clients try again themselves
        return decision

    def _gate(self, topic: str, turn: Turn) -> Gate:
        return self._shared.gate(topic, self._connection.exempt, turn.now_ns)


def _code(decision: Decision) -> int:
    """The code of a refusal; administrators' clients retry one of them (KIP-599)."""
    is_lasting = decision.action is Action.REJECT and decision.reasons[0].outcome is not Outcome.PRECONDITION
    return errors.POLICY_VIOLATION if is_lasting else errors.THROTTLING_QUOTA_EXCEEDED
