"""Framing and headers of requests and responses."""

import struct
from functools import partial
from typing import NamedTuple

from sluicegate_kafka.codec.api_keys import NEVER, READ, ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.primitives import MALFORMED, Cursor, skip_tags

_HEAD = struct.Struct(">hhih")
_LENGTH = 4
_CONTROLLED_SHUTDOWN = 7
"""Its version 0 alone has no client id in its header."""
MOST_OF_CLIENT_ID = 1_024
"""Bytes of a client id by which connections are told apart."""
_pack_i32 = struct.Struct(">i").pack
_FIRST_FLEXIBLE = {int(api_key): versions.first_flexible for api_key, versions in READ.items()}


class RequestHead(NamedTuple):
    """A request's header."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    """Empty when null."""
    body: int
    """Offset of the body in the buffer."""
    start: int
    """Offset of the header in the buffer."""
    end: int
    """Offset after the body in the buffer."""


_head_of = partial(tuple.__new__, RequestHead)  # half the time of a call with so many arguments


def is_flexible(api_key: int, version: int) -> bool:
    """True if this version of an API that is read here has compact types and tagged fields."""
    return version >= _FIRST_FLEXIBLE.get(api_key, NEVER)


def parse_request_head(frame: bytes, start: int = 0, end: int | None = None) -> RequestHead:
    """Read a request's header.

    :param frame: a buffer that holds the request.
    :param start: where the request starts, after its length.
    :param end: where it ends; None for the end of the buffer.
    :raises ProtocolError: when the header does not fit, or names a negative API key or version.
    """
    if end is None:
        end = len(frame)
    try:
        api_key, version, correlation_id, size = _HEAD.unpack_from(frame, start)
        at = start + 10
        client_id = ""
        if size > 0:
            client_id = str(frame[at : at + size], "utf-8")
            at += size
        if api_key < 0 or version < 0:
            raise ProtocolError(f"API key {api_key} version {version}, expected none below 0")
        if version >= _FIRST_FLEXIBLE.get(api_key, NEVER):
            at = at + 1 if frame[at] == 0 else skip_tags(frame, at)
    except MALFORMED as error:
        raise ProtocolError(f"no request header: {error}") from error
    if at > end:
        raise ProtocolError(f"a request header of {at - start} bytes in a frame of {end - start}")
    return _head_of((api_key, version, correlation_id, client_id, at, start, end))


def client_id_of(first: bytes) -> bytes | int:
    """The client id in the first bytes of a connection, cut to MOST_OF_CLIENT_ID bytes.

    :param first: what the client sent, with the length of its first request.
    :return: empty if there is none; how many bytes it takes to tell, if these are too few.
    """
    if len(first) < _LENGTH + _HEAD.size:
        return _LENGTH + _HEAD.size
    api_key, version, _, size = _HEAD.unpack_from(first, _LENGTH)
    if size <= 0 or (api_key, version) == (_CONTROLLED_SHUTDOWN, 0):
        return b""
    end = _LENGTH + _HEAD.size + min(size, MOST_OF_CLIENT_ID)
    return first[_LENGTH + _HEAD.size : end] if len(first) >= end else end


def _response_header_is_flexible(api_key: int, version: int) -> bool:
    """True if the response header carries tagged fields; ApiVersions never does (KIP-511)."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)


def response_body_offset(api_key: int, version: int, frame: bytes) -> int:
    """Where a response's body starts, in a frame without its length.

    :raises ProtocolError: when the header does not fit.
    """
    if not _response_header_is_flexible(api_key, version):
        return 4
    try:
        return skip_tags(frame, 4)
    except MALFORMED as error:
        raise ProtocolError(f"no response header: {error}") from error


def response_body(frame: bytes, api_key: int, version: int) -> Cursor:
    """A cursor at the start of a response's body.

    :param frame: the response without its length.
    :raises ProtocolError: when the header does not fit.
    """
    return Cursor(frame, response_body_offset(api_key, version, frame), is_flexible(api_key, version))


def response_head(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header of a response that the gateway makes itself."""
    tags = b"\0" if _response_header_is_flexible(api_key, version) else b""
    return _pack_i32(correlation_id) + tags
