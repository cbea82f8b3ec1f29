"""Passes each response to the handler that waits for its request id."""

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.session.requests.connection import Connection, Handler

_TYPES = pb.BaseCommand.Type


class Responses:
    """The broker's responses on one connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def broker_handlers(self) -> dict[int, Handler]:
        """Handlers of the broker's commands."""
        return dict.fromkeys((_TYPES.SUCCESS, _TYPES.ERROR, _TYPES.PRODUCER_SUCCESS), self._response)

    def _response(self, data: bytes, start: int, stop: int, now_ns: int) -> bool:
        if not self._connection.awaits_responses:
            return True
        command = parse_command(data, start, stop)
        if command.type == _TYPES.SUCCESS:
            request_id = command.success.request_id
        elif command.type == _TYPES.ERROR:
            request_id = command.error.request_id
        else:
            request_id = command.producer_success.request_id
            if not command.producer_success.producer_ready:
                return True  # it waits for exclusive access; another response follows
        on_response = self._connection.expected(request_id)
        return on_response is None or on_response(command, now_ns)
