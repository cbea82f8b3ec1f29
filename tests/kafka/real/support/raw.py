"""A client on a bare socket, for requests that no client library sends; kio reads and writes."""

import dataclasses
import socket
import ssl
from types import TracebackType
from typing import Any, Self, get_args, get_origin

from kio.schema.index import api_key_map
from tests.kafka.codec.entities import decode_response, request_schema
from tests.kafka.session.wire import request
from tests.waiting import LONG_S


def address(bootstrap: str) -> tuple[str, int]:
    """Host and port of `host:port`."""
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


class RawClient:
    """One connection.

    :param bootstrap: `host:port`.
    :param timeout_s: for everything.
    :param tls: for a connection with TLS.
    :param receive_bytes: size of the kernel's receive buffer; 0 for the usual one.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = LONG_S,
        tls: ssl.SSLContext | None = None,
        client_id: str = "raw",
        receive_bytes: int = 0,
    ) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        plain = socket.socket()
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.settimeout(timeout_s)
        plain.connect(address(bootstrap))
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=address(bootstrap)[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def post(self, entity: Any) -> None:
        """Send a request and do not wait."""
        self._correlation_id += 1
        self.send(request(entity, self._correlation_id, self._client_id))

    def ask(self, entity: Any) -> Any:
        """Send a request and return the message of its response."""
        self.post(entity)
        return self.answer(entity.__api_key__, entity.__version__)

    def answer(self, api_key: int, version: int) -> Any:
        """The message of the next response."""
        correlation_id, answer = decode_response(self.frame(), api_key, version)
        assert correlation_id == self._correlation_id
        return answer

    def frame(self) -> bytes:
        """The next response without its length."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def rest(self) -> bytes:
        """All that still comes until the other side closes.

        :raises TimeoutError: if it does not.
        """
        found = bytearray()
        try:
            while data := self.socket.recv(65_536):
                found += data
        except ConnectionResetError:
            pass
        return bytes(found)

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            data = self.socket.recv(min(count - len(found), 1 << 20))
            if not data:
                raise ConnectionError(f"closed after {len(found)} of {count} bytes")
            found += data
        return bytes(found)


def call(name: str, version: int, **fields: Any) -> Any:
    """A request by its schema's name, such as `metadata`; nested structures are given as dictionaries."""
    keys = {api: key for key, api in api_key_map.items()}
    return _built(request_schema(keys[name], version), fields)


def _built(schema: Any, values: dict[str, Any]) -> Any:
    """An entity of a schema; what is not given must have a default."""
    kinds = {field.name: field.type for field in dataclasses.fields(schema)}
    return schema(**{name: _value(kinds[name], value) for name, value in values.items()})


def _value(kind: Any, value: Any) -> Any:
    if isinstance(value, list | tuple):
        inner = next(each for each in (kind, *get_args(kind)) if get_origin(each) is tuple)
        return tuple(_value(get_args(inner)[0], each) for each in value)
    return _built(kind, value) if isinstance(value, dict) else value
