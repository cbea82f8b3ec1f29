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
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import (
    Cursor,
    guarded,
    write_array_length,
    write_string,
    write_uvarint,
)
from sluicegate_kafka.codec.produce_responses import node_endpoints
from sluicegate_kafka.codec.slices import Slices

Address: TypeAlias = tuple[str, int]
"""Host and port."""
AddressMap: TypeAlias = Callable[[Mapping[int, Address]], Mapping[int, Address]]
"""Addresses by node id as the broker says them -> those that the client shall see, without the nodes that it
shall not see."""

_NO_ENTITY: Final = -1
"""Node id of an unknown coordinator; its address is empty."""
_NODE_BYTES = 4
_FIND_COORDINATOR_BATCHED = 4
_BROKER = "start @, node* i32, host* string, port* i32, address_end @, rack"
_METADATA = Reader(f"throttle_ms 3+ i32, brokers_at @, brokers* [{_BROKER} 1+ string?]@")
_CLUSTER = Reader(
    "throttle_ms i32, error i16, message string?, endpoint_type 1+ i8, cluster string, controller i32, "
    f"brokers_at @, brokers* [{_BROKER} string?, fenced 2+ i8]@"
)
_ENDPOINTS = Reader(f"brokers_at @, brokers* [{_BROKER} string?]@")
# An address takes some 6 us, and a client may ask for half a million coordinators.
_COORDINATORS = Reader(
    "throttle_ms 1+ i32, error_at 0-3 @, error 0-3 i16, message 1-3 string?, "
    "start 0-3 @, node* 0-3 i32, host* 0-3 string, port* 0-3 i32, end 0-3 @, coordinators 4+ 5x["
    "key string, start @, node* i32, host* string, port* i32, end @, error_at @, error i16, message string?]"
)
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

    def brokers(self, length_at: int, listed: list[tuple[int, int, str, int, int, int]]) -> None:
        """Replace the addresses in an array of brokers, and leave out those that have none.

        :param length_at: where the array begins.
        :param listed: what `_BROKER` keeps of each.
        """
        seen = self.map({node: (host, port) for _, node, host, port, *_ in listed})
        if left_out := sum(node not in seen for _, node, *_ in listed):
            count = write_array_length(len(listed) - left_out, self.cursor.flexible)
            self.replace(length_at, listed[0][0], count)
        for start, node, _, _, address_end, end in listed:
            if node in seen:
                self.replace(start + _NODE_BYTES, address_end, self._written(seen[node]))
            else:
                self.replace(start, end, b"")

    def coordinator(self, start: int, node: int, host: str, port: int, end: int, error_at: int) -> None:
        """Replace the address of a coordinator; one that must not be known is not available."""
        if node == _NO_ENTITY:
            return
        if (seen := self.map({node: (host, port)}).get(node)) is not None:
            self.replace(start + _NODE_BYTES, end, self._written(seen))
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


def _with_addresses(reader: Reader, cursor: Cursor, version: int, address_map: AddressMap) -> bytes:
    """A message with other addresses of its brokers."""
    splice = _Splice(cursor, address_map)
    splice.brokers(*reader.read(cursor, version))
    return splice.result()


def rewrite_metadata(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    """A Metadata response with the gateway's addresses.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param address_map: the address that clients see for each node.
    :raises ProtocolError: when it is malformed.
    """
    return _with_addresses(_METADATA, response_body(frame, ApiKey.METADATA, version), version, address_map)


def rewrite_find_coordinator(frame: bytes, version: int, address_map: AddressMap) -> Slices[bytes]:
    """A FindCoordinator response with the gateway's addresses; those of unknown coordinators stay empty.

    A coordinator that must not be known is one that is not available: clients ask again. Yields between two
    slices.

    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.FIND_COORDINATOR, version)
    splice = _Splice(cursor, address_map)
    error_at, *single = yield from _COORDINATORS.slices(cursor, version, coordinators=splice.coordinator)
    if version < _FIND_COORDINATOR_BATCHED:
        splice.coordinator(*(*single, error_at))
    return splice.result()


def rewrite_describe_cluster(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    """A DescribeCluster response with the gateway's addresses.

    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.DESCRIBE_CLUSTER, version)
    return _with_addresses(_CLUSTER, cursor, version, address_map)


@guarded
def rewrite_node_endpoints(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    """A Produce response with the gateway's addresses in its NodeEndpoints (KIP-951).

    Fetch responses have them from version 16 on, which the gateway does not offer.

    :raises ProtocolError: when it is malformed.
    """
    parts: list[bytes] = []
    done = 0
    for size_offset, start, end in node_endpoints(frame, version):
        cursor = Cursor(frame[start:end], 0, flexible=True)
        value = _with_addresses(_ENDPOINTS, cursor, version, address_map)
        parts += [frame[done:size_offset], write_uvarint(len(value)), value]
        done = end
    parts.append(frame[done:])
    return b"".join(parts)
