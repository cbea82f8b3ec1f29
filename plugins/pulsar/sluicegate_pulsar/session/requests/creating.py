"""Topics that clients create by asking for their partitions, as all stock clients do before they attach."""

from functools import partial

from sluicegate.broker import ToClient, ToUpstream
from sluicegate.decisions.ids import with_id
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame, parse_command
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, Handler
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_CREATE = OperationKind.CREATE_TOPIC
_FAILED = pb.PartitionedMetadataResponse.FAILED


class Creating:
    """Decides which topics one connection creates.

    A request that would create a topic is forwarded as one that creates none. If the topic is missing and may
    be created, the request goes to the broker once more, as the client sent it.

    :param shared: the front's state.
    :param connection: the client's.
    """

    __slots__ = ("_connection", "_shared")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection

    @property
    def client_handlers(self) -> dict[int, Handler]:
        """Handlers of the client's commands."""
        return {_TYPES.PARTITIONED_METADATA: self._request}

    def _request(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        command = parse_command(data, start, stop)
        request = command.partitioned_metadata
        if not request.metadata_auto_creation_enabled:
            return PASS
        try:
            topic = topic_name(request.topic).full
        except ProtocolError:
            return PASS  # the broker refuses it
        if not self._gate(topic, now_ns).asks(_CREATE):
            return PASS
        self._connection.attaches()
        self._connection.requests.expect(
            request.request_id, partial(self._responded, topic, data[start:stop])
        )
        request.metadata_auto_creation_enabled = False
        return (ToUpstream(command_frame(command)),)

    def _responded(self, topic: str, frame: bytes, command: pb.BaseCommand, now_ns: int) -> Handled:
        """The broker has answered the request that creates nothing; `frame` is the client's own."""
        response = command.partitioned_metadata_response
        if response.error != ServerError.TOPIC_NOT_FOUND or response.response != _FAILED:
            return PASS
        decision = self._decide(topic, now_ns)
        if decision is None:
            self._connection.send_up(frame)
            return TAKEN
        response.error, response.message = _code(decision), with_id(decision.text, decision.id)
        return (ToClient(command_frame(command)),)

    def _decide(self, topic: str, now_ns: int) -> Decision | None:
        client, gate = self._connection.client, self._gate(topic, now_ns)
        op = Operation(_CREATE, topic, client.principal, client.label)
        decision = gate.decide(op, now_ns)
        if decision is None or decision.action is Action.REWRITE:
            return None
        gate.abandon(op, now_ns)  # clients try again themselves
        return decision

    def _gate(self, topic: str, now_ns: int) -> Gate:
        return self._shared.gates.get(topic, self._connection.client.exempt, now_ns)


def _code(decision: Decision) -> ServerError:
    """Clients try again after one of the two."""
    is_lasting = decision.action is Action.REJECT
    return ServerError.NOT_ALLOWED_ERROR if is_lasting else ServerError.SERVICE_NOT_READY
