"""Versions and identity: ApiVersions, SASL and the principal."""

from sluicegate.broker import Buffer
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, parse_request_head
from sluicegate_kafka.codec.sasl import (
    is_accepted,
    principal_of,
    sasl_authenticate_result,
    sasl_mechanism,
    sasl_token,
)
from sluicegate_kafka.codec.versions import client_software, unsupported_version_response
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.outcomes import Answer, Expected, Handler, Pass
from sluicegate_kafka.session.requests.states import Event
from sluicegate_kafka.session.shared.shared import Shared


class Handshake:
    """The opening of one connection."""

    __slots__ = ("_begun", "_claimed", "_connection", "_is_accepted", "_mechanism", "_shared")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._begun = False
        """Whether the first token has arrived: only that one names the client."""
        self._mechanism = ""
        self._claimed: str | None = None
        self._is_accepted = False

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers of this package's APIs."""
        return {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.SASL_HANDSHAKE: self._sasl_handshake,
            ApiKey.SASL_AUTHENTICATE: self._sasl_authenticate,
        }

    def _api_versions(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        self._connection.names_software(client_software(frame, head))
        self._shared.client_gaps.named(self._connection)
        handle = self._shared.learned.offered_versions.handle(head.version)
        return Pass(Expected(head.correlation_id, handle))

    def _sasl_handshake(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        self._mechanism = sasl_mechanism(frame, head)
        if not self._is_accepted:
            self._connection.happened(Event.LOGIN)
        self._begun = False
        self._claimed = None
        return Pass(head.correlation_id)

    def _sasl_authenticate(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        if not self._begun:
            self._begun = True
            self._claimed = principal_of(self._mechanism, sasl_token(frame, head))
        # Read them now: a client may send its next requests before this one has its response.
        mechanism, claimed = self._mechanism, self._claimed

        def accept(response: bytes, now_ns: int) -> Buffer:
            if is_accepted(mechanism, *sasl_authenticate_result(response, head.version)):
                self._is_accepted = True
                self._connection.happened(Event.ACCEPTED)
                if claimed:
                    principal = f"User:{claimed}"
                    self._connection.accepted(principal, exempt=self._shared.is_exempt(principal))
            return response

        return Pass(Expected(head.correlation_id, accept))

    def refuse_version(self, frame: bytes, api_key: int, version: int) -> Answer:
        """Answer a policed API in a version that the gateway does not read: it must not pass unread.

        :raises ProtocolError: where Kafka has no response of that version that we could write.
        """
        if api_key == ApiKey.API_VERSIONS:
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        else:
            correlation_id = parse_request_head(frame).correlation_id
        response = unsupported_version_response(api_key, version, correlation_id)
        if response is None:
            raise ProtocolError(f"api key {api_key} version {version} is not offered through the gateway")
        self._shared.count(KafkaEvent.UNSUPPORTED_VERSION_REFUSED)
        return Answer(response)
