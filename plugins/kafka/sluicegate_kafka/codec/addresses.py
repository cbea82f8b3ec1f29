"""Broker addresses in responses: read them, and put the gateway's own in their place.

All functions take and return frames without their length. Only addresses change, and brokers that must not be
known to clients are left out; every other byte stays, fields of later versions included.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import response_body
from sluicegate_kafka.codec.primitives import (
    Cursor,
    guarded,
    write_array_length,
    write_string,
    write_uvarint,
)
from sluicegate_kafka.codec.produce_responses import node_endpoints
from sluicegate_kafka.codec.slices import Slices, guarded_slices

Address: TypeAlias = tuple[str, int]
"""Host and port."""
AddressMap: TypeAlias = Callable[[Mapping[int, Address]], Mapping[int, Address]]
"""Addresses by node id as the broker says them -> those that the client shall see, without the nodes that it
shall not see."""

_NO_ENTITY: Final = -1
"""Node id of an unknown coordinator; its address is empty."""
_FIND_COORDINATOR_BATCHED = 4
_ADDRESSES_PER_SLICE = 200
"""Coordinators that are read in one slice, some 6 us each; a client may ask for half a million."""
_pack_i32 = struct.Struct(">i").pack
_pack_i16 = struct.Struct(">h").pack


class _Splice:
    """Replaces addresses, and keeps all other bytes."""

    __slots__ = ("_done", "_parts", "cursor", "map")

    def __init__(self, cursor: Cursor, address_map: AddressMap) -> None:
        self.cursor = cursor
        self.map = address_map
        self._parts: list[bytes | memoryview] = []
        self._done = 0

    def replace(self, start: int, end: int, new: bytes) -> None:
        """Put other bytes in place of some; from front to back."""
        self._parts += (memoryview(self.cursor.buffer)[self._done : start], new)
        self._done = end

    def brokers(self, skip_rest: Callable[[Cursor], None]) -> None:
        """Replace the addresses in an array of brokers, and leave out those that have none.

        :param skip_rest: skips what stands behind the address of each.
        """
        cursor = self.cursor
        length_at = cursor.at
        count = cursor.array_length()
        begin = cursor.at
        named: dict[int, Address] = {}
        entries: list[tuple[int, int, int, int, int]] = []
        for _ in range(count):
            start, node, address_at = cursor.at, cursor.i32(), cursor.at
            named[node] = cursor.string(), cursor.i32()
            address_end = cursor.at
            skip_rest(cursor)
            cursor.tags()
            entries.append((node, start, address_at, address_end, cursor.at))
        seen = self.map(named)
        if left_out := sum(node not in seen for node, *_ in entries):
            self.replace(length_at, begin, write_array_length(count - left_out, cursor.flexible))
        for node, start, address_at, address_end, end in entries:
            if node in seen:
                self.replace(address_at, address_end, self._written(seen[node]))
            else:
                self.replace(start, end, b"")

    def coordinator(self, error_before: int | None = None) -> None:
        """Replace the address of the next coordinator; one that must not be known is not available.

        :param error_before: where its error stands; None if it follows the address.
        """
        cursor = self.cursor
        start, node, address_at = cursor.at, cursor.i32(), cursor.at
        address = cursor.string(), cursor.i32()
        end = cursor.at
        error_at = end if error_before is None else error_before
        if error_before is None:
            cursor.i16()
        if node == _NO_ENTITY:
            return
        if (seen := self.map({node: address}).get(node)) is not None:
            self.replace(address_at, end, self._written(seen))
            return
        no_coordinator = (start, end, _pack_i32(_NO_ENTITY) + self._written(("", -1)))
        error = (error_at, error_at + 2, _pack_i16(errors.COORDINATOR_NOT_AVAILABLE))
        for change in sorted((no_coordinator, error)):
            self.replace(*change)

    def _written(self, address: Address) -> bytes:
        return write_string(address[0], self.cursor.flexible) + _pack_i32(address[1])

    def result(self) -> bytes:
        """The whole frame."""
        if not self._parts:
            return self.cursor.buffer
        return b"".join((*self._parts, memoryview(self.cursor.buffer)[self._done :]))


def _skip_rack(cursor: Cursor) -> None:
    cursor.nullable_string()


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
    splice.brokers(_skip_rack if version >= 1 else lambda cursor: None)
    return splice.result()


@guarded_slices
def rewrite_find_coordinator(frame: bytes, version: int, address_map: AddressMap) -> Slices[bytes]:
    """A FindCoordinator response with the gateway's addresses; those of unknown coordinators stay empty.

    A coordinator that must not be known is one that is not available: clients ask again. Yields between two
    slices.

    :raises ProtocolError: when it is malformed.
    """
    splice = _Splice(response_body(frame, ApiKey.FIND_COORDINATOR, version), address_map)
    cursor = splice.cursor
    if version >= 1:
        cursor.i32()  # throttle time
    if version < _FIND_COORDINATOR_BATCHED:
        error_at = cursor.at
        cursor.i16()
        if version >= 1:
            cursor.nullable_string()
        splice.coordinator(error_at)
        return splice.result()
    for read in range(cursor.array_length()):
        if read % _ADDRESSES_PER_SLICE == _ADDRESSES_PER_SLICE - 1:
            yield
        cursor.string()  # key
        splice.coordinator()
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

    def skip_rest(cursor: Cursor) -> None:
        cursor.nullable_string()  # rack
        if version >= 2:
            cursor.i8()  # fenced

    splice.brokers(skip_rest)
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
    splice.brokers(_skip_rack)
    return splice.result()
