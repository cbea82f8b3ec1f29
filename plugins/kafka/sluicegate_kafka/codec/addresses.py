"""Broker addresses in responses: read them, and put the gateway's own in their place.

All functions take and return frames without their length. Only host and port change; every other byte stays,
fields of later versions included.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import response_body
from sluicegate_kafka.codec.primitives import Cursor, guarded, write_string, write_uvarint
from sluicegate_kafka.codec.produce_responses import node_endpoints
from sluicegate_kafka.codec.slices import Slices, guarded_slices

AddressMap: TypeAlias = Callable[[int, str, int], tuple[str, int]]
"""`(node_id, host, port)` as the broker says it -> what the client shall see."""

_NO_ENTITY: Final = -1
"""Node id of an unknown coordinator; its address is empty."""
_FIND_COORDINATOR_BATCHED = 4
_ADDRESSES_PER_SLICE = 200
"""Coordinators that are read in one slice, some 6 us each; a client may ask for half a million."""
_pack_i32 = struct.Struct(">i").pack


class _Splice:
    """Replaces addresses, and keeps all other bytes."""

    __slots__ = ("cursor", "done", "map", "parts")

    def __init__(self, cursor: Cursor, address_map: AddressMap) -> None:
        self.cursor = cursor
        self.map = address_map
        self.parts: list[bytes | memoryview] = []
        self.done = 0

    def address(self) -> None:
        """Replace the next node id, host and port."""
        cursor = self.cursor
        node = cursor.i32()
        start = cursor.at
        host, port = cursor.string(), cursor.i32()
        if node == _NO_ENTITY:
            return
        host, port = self.map(node, host, port)
        self.parts.append(memoryview(cursor.buffer)[self.done : start])
        self.parts.append(write_string(host, cursor.flexible) + _pack_i32(port))
        self.done = cursor.at

    def result(self) -> bytes:
        """The whole frame."""
        if not self.parts:
            return self.cursor.buffer
        self.parts.append(memoryview(self.cursor.buffer)[self.done :])
        return b"".join(self.parts)


@guarded
def rewrite_metadata(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    """A Metadata response with the gateway's addresses.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param address_map: the address that clients see for each node.
    :raises ProtocolError: when it is malformed.
    """
    splice = _Splice(response_body(frame, ApiKey.METADATA, version), address_map)
    cursor = splice.cursor
    if version >= 3:
        cursor.i32()  # throttle time
    for _ in range(cursor.array_length()):
        splice.address()
        if version >= 1:
            cursor.nullable_string()  # rack
        cursor.tags()
    return splice.result()


@guarded_slices
def rewrite_find_coordinator(frame: bytes, version: int, address_map: AddressMap) -> Slices[bytes]:
    """A FindCoordinator response with the gateway's addresses; those of unknown coordinators stay empty.

    Yields between two slices.

    :raises ProtocolError: when it is malformed.
    """
    splice = _Splice(response_body(frame, ApiKey.FIND_COORDINATOR, version), address_map)
    cursor = splice.cursor
    if version >= 1:
        cursor.i32()  # throttle time
    if version < _FIND_COORDINATOR_BATCHED:
        cursor.i16()  # error
        if version >= 1:
            cursor.nullable_string()
        splice.address()
        return splice.result()
    for read in range(cursor.array_length()):
        if read % _ADDRESSES_PER_SLICE == _ADDRESSES_PER_SLICE - 1:
            yield
        cursor.string()  # key
        splice.address()
        cursor.i16()  # error
        cursor.nullable_string()
        cursor.tags()
    return splice.result()


@guarded
def rewrite_describe_cluster(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    """A DescribeCluster response with the gateway's addresses.

    :raises ProtocolError: when it is malformed.
    """
    splice = _Splice(response_body(frame, ApiKey.DESCRIBE_CLUSTER, version), address_map)
    cursor = splice.cursor
    cursor.skip(4 + 2)  # throttle time, error
    cursor.nullable_string()
    if version >= 1:
        cursor.i8()  # endpoint type
    cursor.string()  # cluster id
    cursor.i32()  # controller
    for _ in range(cursor.array_length()):
        splice.address()
        cursor.nullable_string()  # rack
        if version >= 2:
            cursor.i8()  # fenced
        cursor.tags()
    return splice.result()


@guarded
def rewrite_node_endpoints(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    """A Produce response with the gateway's addresses in its NodeEndpoints (KIP-951).

    Fetch responses have them from version 16 on, which the gateway does not offer.

    :raises ProtocolError: when it is malformed.
    """
    parts: list[bytes] = []
    done = 0
    for size_offset, start, end in node_endpoints(frame, version):
        value = _rewrite_endpoints(frame, start, end, address_map)
        parts += [frame[done:size_offset], write_uvarint(len(value)), value]
        done = end
    parts.append(frame[done:])
    return b"".join(parts)


def _rewrite_endpoints(frame: bytes, start: int, end: int, address_map: AddressMap) -> bytes:
    """The value of a NodeEndpoints field with rewritten addresses."""
    splice = _Splice(Cursor(frame[start:end], 0, flexible=True), address_map)
    cursor = splice.cursor
    for _ in range(cursor.array_length()):
        splice.address()
        cursor.nullable_string()  # rack
        cursor.tags()
    return splice.result()
