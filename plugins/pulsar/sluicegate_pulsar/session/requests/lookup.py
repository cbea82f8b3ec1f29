"""Where topics are served: no client may learn an address that bypasses the gateway.

Lookups answer with `proxy_through_service_url`, so that the client returns to the address that it knows
and names the broker in CONNECT. Commands that send a client elsewhere later name the gateway's port for that
broker, or nothing if it is not known: the client then looks the topic up again.
"""

from sluicegate.broker import ToClient
from sluicegate.broker.broker_ports import shown
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame, parse_command
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, Handler
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_RESULTS = pb.LookupResponse.Result


class Lookup:
    """Broker addresses on one connection."""

    __slots__ = ("_connection", "_shared", "_tls")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._tls = shared.config.tls
        """Which of clients and brokers speak TLS with the gateway."""

    @property
    def broker_handlers(self) -> dict[int, Handler]:
        """Handlers of the broker's commands."""
        return {
            _TYPES.LOOKUP_RESPONSE: self._response,
            _TYPES.TOPIC_MIGRATED: self._migrated,
            _TYPES.SCALABLE_TOPIC_UPDATE: self._withhold,
            _TYPES.WATCH_TC_ASSIGNMENTS_UPDATE: self._withhold,
        }

    def _response(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        command = parse_command(data, start, stop)
        response = command.lookup_response
        if response.response == _RESULTS.FAILED:
            return PASS
        plain, tls = response.broker_service_url, response.broker_service_url_tls
        url = tls if self._tls.broker or not plain else plain
        address = self._shared.brokers.target(url)
        if address is None:
            self._fail(command, url)
        elif response.response == _RESULTS.REDIRECT:
            self._translate(response, url)
        else:
            self._shared.brokers.met(address)
            # The broker's own name comes back in `proxy_to_broker_url`; which of the two URLs a client uses
            # depends on its connection to the gateway, not on the gateway's to the broker.
            name = shown(address)
            response.broker_service_url = f"pulsar://{name}"
            response.broker_service_url_tls = f"pulsar+ssl://{name}"
            response.proxy_through_service_url = True
        return (ToClient(command_frame(command)),)

    def _fail(self, command: pb.BaseCommand, url: str) -> None:
        self._shared.count(PulsarEvent.UNKNOWN_BROKER_REFUSED)
        request_id = command.lookup_response.request_id
        command.lookup_response.Clear()
        command.lookup_response.MergeFrom(
            pb.LookupResponse(
                request_id=request_id,
                response=_RESULTS.FAILED,
                error=ServerError.SERVICE_NOT_READY,
                message=f"broker {url[:200]} is not known to this gateway (see known_brokers)",
            )
        )

    def _translate(self, named: pb.LookupResponse | pb.CloseProducer | pb.CloseConsumer, url: str) -> None:
        """Put the gateway's port for a broker in place of its own."""
        own = self._shared.brokers.translate(url, tls=self._tls.client is not None) or ""
        field = (
            "broker_service_url" if isinstance(named, pb.LookupResponse) else "assigned_broker_service_url"
        )
        for name in (field, f"{field}_tls"):
            named.ClearField(name)
        if own:
            setattr(named, f"{field}_tls" if self._tls.client else field, own)

    def reassign(self, named: pb.CloseProducer | pb.CloseConsumer) -> bool:
        """Rewrite the broker address for a closed producer or consumer.

        :return: True if anything was changed.
        """
        plain, tls = named.assigned_broker_service_url, named.assigned_broker_service_url_tls
        if not plain and not tls:
            return False
        url = tls if self._tls.broker or not plain else plain
        address = self._shared.brokers.target(url)
        if address is not None and self._connection.client.is_proxied:
            # Such a client names this broker in its next CONNECT.
            named.assigned_broker_service_url = f"pulsar://{shown(address)}"
            named.assigned_broker_service_url_tls = f"pulsar+ssl://{shown(address)}"
        else:
            self._translate(named, url)
        return True

    def _migrated(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """Another cluster is not behind this gateway: its clients would bypass every policy."""
        self._shared.count(PulsarEvent.TOPIC_MIGRATION_WITHHELD)
        return TAKEN

    def _withhold(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """Drop commands of features that were not offered (see `Handshake`)."""
        self._shared.count(PulsarEvent.UNKNOWN_ASSIGNMENT_WITHHELD)
        return TAKEN
