"""Admission of SUBSCRIBE, and the identity a consumer is counted under."""

from collections.abc import Callable
from functools import partial

from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.sessions.admission import Hold
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.session.requests.attach_requests import Request, Waiting, create_operation
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.refusals import consumer_refusal
from sluicegate_pulsar.session.shared.shared import Shared

_ATTACH = OperationKind.ATTACH_CONSUMER


class Subscribing(Waiting):
    """The SUBSCRIBE requests of one connection.

    :param shared: the front's state.
    :param connection: where they come from.
    :param admit: called with a SUBSCRIBE, its request, gate and the time, right before it goes on.
    """

    __slots__ = ("_admit",)

    timed_out = "subscribe_hold_timed_out"

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        admit: Callable[[pb.Subscribe, Request, Gate, int], None],
    ) -> None:
        super().__init__(shared, connection)
        self._admit = admit

    def request(self, subscribe: pb.Subscribe, topic: str, frame: bytes, now_ns: int) -> bool:
        """Decide a SUBSCRIBE.

        :param topic: full name.
        :param frame: the whole frame.
        :return: True if it passes unchanged, False if it was answered or is held.
        """
        connection, subscription = self._connection, subscribe.subscription
        consumer = f"{connection.peer}/{subscribe.consumer_id}"
        names = (topic, connection.principal, connection.client)
        request = Request(
            subscribe.consumer_id,
            subscribe.request_id,
            frame,
            Operation(_ATTACH, *names, subscription=subscription, consumer=consumer),
            create_operation(*names, subscription),
            partial(self._admit, subscribe),
            Hold(self._shared.max_hold_ns),
        )
        return self._decide(request, now_ns)

    def _refusal(self, request: Request, decision: Decision) -> tuple[ServerError, str]:
        return consumer_refusal(decision, request.attach.topic)
