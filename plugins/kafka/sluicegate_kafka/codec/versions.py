"""ApiVersions: offer only what the gateway understands, and refuse what is too new."""

import struct
from collections.abc import Collection, Mapping

from sluicegate_kafka.codec.api_keys import READ, ApiKey, Versions
from sluicegate_kafka.codec.errors import UNSUPPORTED_VERSION
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_head
from sluicegate_kafka.codec.primitives import Cursor, guarded, with_length, write_array_length

_FETCH_KNOWN = range(7, 19)
"""Fetch versions with a top-level error in a layout that is known."""
_RANGE = struct.Struct(">hhh")
_i16 = struct.Struct(">h")
_i32 = struct.Struct(">i")


@guarded
def restrict_api_versions(
    frame: bytes, version: int, limits: Mapping[int, Versions], hidden: Collection[int]
) -> bytes:
    """An ApiVersions response that offers only what both the broker and the gateway understand.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param limits: lowest and highest version of each API that the gateway reads; others stay as they are.
    :param hidden: API keys that are not offered at all.
    :return: a frame without its length. An API without a common version is left out; tagged fields
        (features) stay. A response with an error stays whole: a broker that does not know the version answers
        in the format of version 0 (KIP-511).
    :raises ProtocolError: when it is malformed.
    """
    (error,) = _i16.unpack_from(frame, 4)
    if error:
        return frame
    cursor = Cursor(frame, 6, is_flexible(ApiKey.API_VERSIONS, version))
    kept: list[bytes | memoryview] = []
    for _ in range(cursor.array_length()):
        start = cursor.at
        key, low, high = _RANGE.unpack_from(frame, start)
        cursor.skip(_RANGE.size)
        cursor.tags()
        if key in limits:
            low, high = max(low, limits[key].lowest), min(high, limits[key].highest)
        if key not in hidden and low <= high:
            kept += [_RANGE.pack(key, low, high), frame[start + _RANGE.size : cursor.at]]
    return b"".join(
        (frame[:6], write_array_length(len(kept) // 2, cursor.flexible), *kept, frame[cursor.at :])
    )


def unsupported_version_response(api_key: int, version: int, correlation_id: int) -> bytes | None:
    """The answer to a request in a version that is not read here.

    :param api_key: of the request.
    :param version: of the request.
    :param correlation_id: of the request.
    :return: a frame with its length; None where Kafka has no such answer in a known layout: a broker closes
        the connection then.
    """
    if api_key == ApiKey.API_VERSIONS:
        low, high, _ = READ[ApiKey.API_VERSIONS]
        body = _i32.pack(correlation_id) + _i16.pack(UNSUPPORTED_VERSION) + _i32.pack(1)
        return with_length([body, _RANGE.pack(ApiKey.API_VERSIONS, low, high)])
    if api_key == ApiKey.FETCH and version in _FETCH_KNOWN:
        flexible = is_flexible(ApiKey.FETCH, version)
        # not throttled, the error, no session, no topics, no tagged fields
        body = bytes(4) + _i16.pack(UNSUPPORTED_VERSION) + bytes(4) + write_array_length(0, flexible)
        return with_length(
            [response_head(api_key, version, correlation_id), body, b"\0" if flexible else b""]
        )
    return None


@guarded
def client_software(frame: bytes, head: RequestHead) -> str:
    """The name of the client library in an ApiVersions request; empty before version 3 (KIP-511).

    :raises ProtocolError: when it is malformed.
    """
    if not is_flexible(ApiKey.API_VERSIONS, head.version):
        return ""
    return Cursor(frame, head.body, flexible=True).string()
