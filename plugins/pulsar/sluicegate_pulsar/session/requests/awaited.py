"""Requests of one connection whose responses are awaited."""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from sluicegate.model import CloseReason
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.events import PulsarClose
from sluicegate_pulsar.session.requests.client_identity import Client
from sluicegate_pulsar.session.requests.handling import PASS, Handled, OnResponse
from sluicegate_pulsar.session.requests.reading_stops import Reading


class Awaited(NamedTuple):
    """A response that is awaited."""

    request_id: int
    on_response: OnResponse


_TYPES = pb.BaseCommand.Type
_OWN_REQUESTS = 2**62
"""Ids of the gateway's own requests; clients count theirs from 0."""
_MAX_REQUESTS = 10_000
"""Requests of one connection whose responses are awaited at once, if reading stops too late."""
_FEW = 64
"""Up to so many requests do not count as memory."""
_REQUEST_BYTES = 1024
"""Memory of each further one until its response arrives."""


class Requests:
    """Requests without a response, each with what is called then.

    :param client: whose requests they are.
    :param reading: of its frames; stopped while too many responses are awaited.
    :param most: so many are too many.
    :param close: closes the connection, with counter and detail.
    """

    __slots__ = (
        "_cancelled",
        "_client",
        "_close",
        "_closed_by",
        "_is_full",
        "_most",
        "_queued",
        "_reading",
        "_requests",
        "own_ids",
    )

    def __init__(
        self, client: Client, reading: Reading, most: int, close: Callable[[CloseReason, str], None]
    ) -> None:
        self._client = client
        self._reading = reading
        self._most = most
        self._close = close
        self._is_full = False
        self._requests: dict[int, OnResponse] = {}
        """Those that the broker answers soon."""
        self._queued: dict[int, OnResponse] = {}
        """Producers that wait for exclusive access, which may take for ever."""
        self._closed_by: dict[int, Awaited] = {}
        """By id of a request to close: the request to attach that it cancels."""
        self._cancelled: dict[int, OnResponse] = {}
        """Requests to attach whose close the broker answered first; it hardly ever answers them too."""
        self.own_ids = count(_OWN_REQUESTS)
        """Ids for the gateway's own requests to the broker."""

    def __len__(self) -> int:
        """How many responses are awaited, or may come."""
        return len(self._requests) + len(self._queued) + len(self._cancelled)

    @property
    def nbytes(self) -> int:
        """Memory of these requests, if they are many."""
        return max(0, len(self) - _FEW) * _REQUEST_BYTES

    @property
    def are_under_way(self) -> bool:
        """True if any response is about to come."""
        return bool(self._requests)

    def expect(self, request_id: int, on_response: OnResponse) -> Awaited:
        """Register a handler for the broker's response to a request, of any type.

        :raises ProtocolError: if too many responses are awaited, or one with this id: the two could not
            be distinguished.
        """
        if request_id in self._requests or request_id in self._queued or request_id in self._cancelled:
            raise ProtocolError(f"request id {request_id} twice without a response between")
        if len(self._requests) + len(self._queued) >= _MAX_REQUESTS:
            raise ProtocolError(f"over {_MAX_REQUESTS} requests without a response")
        self._requests[request_id] = on_response
        if len(self._requests) >= self._most and not self._is_full:
            self._is_full = True
            self._reading.stop()
        return Awaited(request_id, on_response)

    def expect_close(self, request_id: int, attach: Awaited) -> None:
        """The client closes what it has asked to attach: forget that request once the close is answered.

        If the close comes first, the broker answers it alone (`ServerCnx.handleCloseProducer`).

        :param request_id: of the request to close.
        :param attach: of the request to attach; nothing is done if it has its response.
        """
        if self._pending(attach) is not None:
            self._closed_by[request_id] = attach

    def response(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """The broker has responded: call the handler that waits for this request id (`Handler`)."""
        if not len(self):
            return PASS
        command = parse_command(data, start, stop)
        if command.type == _TYPES.SUCCESS:
            request_id = command.success.request_id
        elif command.type == _TYPES.ERROR:
            request_id = command.error.request_id
        elif command.type == _TYPES.PARTITIONED_METADATA_RESPONSE:
            request_id = command.partitioned_metadata_response.request_id
        else:
            request_id = command.producer_success.request_id
            if not command.producer_success.producer_ready:
                self._queue(request_id)
                return PASS  # another response follows
        on_response = self._requests.pop(request_id, None) or self._queued.pop(request_id, None)
        if (attach := self._closed_by.pop(request_id, None)) is not None:
            self._forget(attach)
        self._check_room()
        if on_response is None and (cancelled := self._cancelled.pop(request_id, None)) is not None:
            return self._answered_late(command, cancelled, now_ns)
        return PASS if on_response is None else on_response(command, now_ns)

    def _answered_late(self, response: pb.BaseCommand, on_response: OnResponse, now_ns: int) -> Handled:
        """The broker has answered a request to attach after the close.

        Where it checks the client's rights first, it does not know yet what it is asked to close, and opens
        it afterwards. What the client has closed passes no policy, so the connection ends with it.
        """
        if response.type != _TYPES.ERROR:
            self._close(
                PulsarClose.ATTACHED_AFTER_CLOSE,
                f"the broker has opened what {self._client.label} closed before",
            )
        return on_response(response, now_ns)

    def _queue(self, request_id: int) -> None:
        """A producer waits for exclusive access."""
        on_response = self._requests.pop(request_id, None)
        if on_response is not None:
            self._queued[request_id] = on_response
            self._check_room()

    def _pending(self, awaited: Awaited) -> dict[int, OnResponse] | None:
        """Where a response is awaited; None if it has come."""
        for pending in (self._requests, self._queued):
            if pending.get(awaited.request_id) is awaited.on_response:
                return pending
        return None

    def _forget(self, attach: Awaited) -> None:
        """A request to attach need not get a response, as what it asked for is closed."""
        pending = self._pending(attach)
        if pending is not None:
            self._cancelled[attach.request_id] = pending.pop(attach.request_id)
            if len(self._cancelled) > _MAX_REQUESTS:
                del self._cancelled[next(iter(self._cancelled))]

    def _check_room(self) -> None:
        """Read from the client again once few enough responses are awaited."""
        # At half, so that a client at its limit does not stop and resume with each response.
        if self._is_full and len(self._requests) <= self._most // 2:
            self._is_full = False
            self._reading.resume()
