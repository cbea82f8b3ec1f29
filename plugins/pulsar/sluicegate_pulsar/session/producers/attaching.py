"""PRODUCER: admission of producers.

A request waits until the rate of new attachments admits it. If it creates a subscription, it
also waits until the existing ones are listed.
"""

from collections.abc import Callable

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.producers.producers import Producers
from sluicegate_pulsar.session.requests.attach_requests import Request, Waiting
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled
from sluicegate_pulsar.session.shared.refusals import producer_refusal
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_ATTACH = OperationKind.ATTACH_PRODUCER
_MAX_PRODUCERS = 10_000
"""Producers of one connection, those that wait to attach included."""


class Attaching(Waiting):
    """The PRODUCER requests of one connection.

    :param shared: the front's state.
    :param connection: where they come from.
    :param producers: gets the admitted ones.
    :param on_refused: called with a producer that the broker refused, once it is released, and the time.
    """

    __slots__ = ("_on_refused", "_producers")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        producers: Producers,
        on_refused: Callable[[Producer, int], None],
    ) -> None:
        super().__init__(shared, connection, producer_refusal, PulsarEvent.PRODUCER_HOLD_TIMED_OUT)
        self._producers = producers
        self._on_refused = on_refused

    def attach(self, request: "pb.Producer", frame: bytes, now_ns: int) -> Handled:
        """Decide a PRODUCER.

        :param request: the command.
        :param frame: the whole frame, which is kept if it has to wait.
        :return: PASS if it passes unchanged.
        """
        request_id = request.request_id
        if request.producer_id in self._producers.live:
            # The broker decides, and the open producer stays in any case.
            return PASS
        if request.producer_id in self.held:
            return self.refuse(
                request_id, ServerError.SERVICE_NOT_READY, "Producer is already waiting to attach"
            )
        if len(self._producers.live) + len(self.held) >= _MAX_PRODUCERS:
            text = f"Over {_MAX_PRODUCERS} producers on one connection"
            return self.refuse(request_id, ServerError.NOT_ALLOWED_ERROR, text)
        try:
            topic = topic_name(request.topic).full
        except ProtocolError as problem:
            text = f"Invalid topic name: {problem.reason}"
            return self.refuse(request_id, ServerError.INVALID_TOPIC_NAME, text)
        connection, name = self._connection, request.producer_name
        if not self.has_short_names(request_id, name, request.initial_subscription_name):
            return TAKEN
        own = f"id {request.producer_id} of {connection.client.label}"
        names = (topic, connection.client.principal, connection.client.label)
        attach = Operation(_ATTACH, *names, producer=f"name {name}" if name else own, roams=bool(name))
        keeps = topic.startswith("persistent:")  # the others have no subscriptions to keep
        subscription = request.initial_subscription_name if keeps else ""
        return self.request(
            request.producer_id, request_id, frame, attach, subscription or None, self._attached, now_ns
        )

    def _attached(self, request: Request, gate: Gate, now_ns: int) -> None:
        """A request is forwarded; the broker's response may undo it."""
        producer = self._producers.attach(request.number, request.attach, now_ns)

        def on_response(response: pb.BaseCommand, now_ns: int) -> Handled:
            is_success = response.type == _TYPES.PRODUCER_SUCCESS
            if self._producers.live.get(producer.id) is producer:
                if is_success:
                    producer.lifecycle.opened_by(response.SerializeToString())
                    self._producers.named(producer, response.producer_success.producer_name, now_ns)
                else:
                    self._producers.detach(producer, now_ns)
                    self._on_refused(producer, now_ns)
                    # Clients choose the ids of responses: by using one twice they can make the
                    # response to another request look like this one. The gateway would then take the producer
                    # at the broker, when its id is opened again, for one of another topic, and it would
                    # publish by that one's policies.
                    self._producers.close_at_broker(producer.id)
            if is_success:
                request.confirmed(self._gate(request, now_ns))
            else:
                request.take_back(self._gate(request, now_ns))
            return PASS

        self.forwarded(request, on_response)
