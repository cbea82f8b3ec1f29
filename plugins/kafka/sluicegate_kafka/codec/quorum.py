"""DescribeQuorum responses: removes the controllers' addresses (KIP-853).

Controllers are not reachable through the gateway, so there is no address to put in place of theirs.
"""

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import response_body
from sluicegate_kafka.codec.primitives import Cursor, write_array_length
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, guarded_slices

_FIRST_WITH_NODES = 2
_REPLICA_BYTES = 4 + 16 + 8 + 8 + 8
"""Replica id, directory id, log end, and the times of its last fetch and of when it had caught up."""


@guarded_slices
def without_listeners(frame: bytes, version: int) -> Slices[bytes]:
    """A DescribeQuorum response without the listeners of its nodes; yields between two slices.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    if version < _FIRST_WITH_NODES:
        return frame
    cursor = response_body(frame, ApiKey.DESCRIBE_QUORUM, version)
    cursor.i16()  # error
    cursor.nullable_string()
    yield from _skip_topics(cursor)
    parts: list[bytes] = []
    done = 0
    for _ in range(cursor.array_length()):
        cursor.i32()  # node id
        parts += [frame[done : cursor.at], write_array_length(0, flexible=True)]
        for _ in range(cursor.array_length()):
            cursor.string()  # name
            cursor.string()  # host
            cursor.skip(2)  # port
            cursor.tags()
        done = cursor.at
        cursor.tags()
    cursor.tags()
    return b"".join([*parts, frame[done:]])


def _skip_topics(cursor: Cursor) -> Slices[None]:
    """Skip all topics; brokers name any that a client invents."""
    read = 0
    for _ in range(cursor.array_length()):
        cursor.string()  # name
        read += 1
        if read % ENTRIES_PER_SLICE == 0:
            yield
        for _ in range(cursor.array_length()):
            _skip_partition(cursor)
            read += 1
            if read % ENTRIES_PER_SLICE == 0:
                yield
        cursor.tags()


def _skip_partition(cursor: Cursor) -> None:
    cursor.skip(4 + 2)  # partition, error
    cursor.nullable_string()
    cursor.skip(4 + 4 + 8)  # leader, epoch, high watermark
    for _ in range(2):  # voters, observers
        for _ in range(cursor.array_length()):
            cursor.skip(_REPLICA_BYTES)
            cursor.tags()
    cursor.tags()
