"""Answers to Produce requests of version 8: what a broker says, and what a client sees in them."""

import struct

VERSIONS = struct.pack(">hi", 0, 60) + b"".join(struct.pack(">hhh", key, 0, 3) for key in range(60))
"""The body of an answer to ApiVersions 0, with as many APIs as a broker has."""
PRODUCE = 0
"""The API's key."""

_INDEX_AND_SIZE = struct.Struct(">ii")
_REST = struct.pack(">hqqqih", 0, 0, -1, 0, 0, -1)
"""No error, offset, time, first offset, no record errors, no message."""


def wants_answer(request: bytes) -> bool:
    """Whether a Produce asks for acknowledgements.

    :param request: without its length.
    """
    return bool(_acks(request)[0])


def _acks(request: bytes) -> tuple[int, int]:
    """`acks` of a Produce, and where they stand."""
    at = 8
    for _ in ("client id", "transactional id"):
        (length,) = struct.unpack_from(">h", request, at)
        at += 2 + max(length, 0)
    return struct.unpack_from(">h", request, at)[0], at


def produced(request: bytes) -> bytes:
    """The body of an answer in which all went well.

    :param request: a Produce without its length.
    """
    at = _acks(request)[1] + 6
    (topics,) = struct.unpack_from(">i", request, at)
    parts, at = [request[at : at + 4]], at + 4
    for _ in range(topics):
        begins, at = at, at + 2 + struct.unpack_from(">h", request, at)[0] + 4
        parts.append(request[begins:at])
        for _ in range(struct.unpack_from(">i", request, at - 4)[0]):
            index, size = _INDEX_AND_SIZE.unpack_from(request, at)
            at += 8 + size
            parts.append(struct.pack(">i", index) + _REST)
    return b"".join((*parts, bytes(4)))


def refused_topics(response: bytes) -> frozenset[str]:
    """The topics of an answer of which anything was refused.

    :param response: without its length.
    """
    refused, at = set(), 8
    for _ in range(struct.unpack_from(">i", response, 4)[0]):
        (length,) = struct.unpack_from(">h", response, at)
        topic, at = response[at + 2 : at + 2 + length].decode(), at + 6 + length
        for _ in range(struct.unpack_from(">i", response, at - 4)[0]):
            (error,) = struct.unpack_from(">h", response, at + 4)
            if error:
                refused.add(topic)
            at = _after_partition(response, at)
    return frozenset(refused)


def _after_partition(response: bytes, at: int) -> int:
    (errors,) = struct.unpack_from(">i", response, at + 30)
    at += 34
    for _ in range(errors):
        at = _after_text(response, at + 4)
    return _after_text(response, at)


def _after_text(response: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", response, at)
    return at + 2 + max(int(length), 0)
