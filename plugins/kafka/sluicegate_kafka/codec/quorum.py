"""DescribeQuorum responses: removes the controllers' addresses (KIP-853).

Controllers are not reachable through the gateway, so there is no address to put in place of theirs.
"""

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import response_body
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import write_array_length
from sluicegate_kafka.codec.slices import Slices

_FIRST_WITH_NODES = 2
_REPLICAS = "[replica i32, directory uuid, log_end i64, fetched_at i64, caught_up_at i64]"
_NODES = Reader(
    "error i16, message string?, topics [topic string, partitions [index i32, error i16, message string?, "
    f"leader i32, epoch i32, high_watermark i64, voters {_REPLICAS}, observers {_REPLICAS}]], "
    "nodes [node i32, listeners_at @, listeners [name string, host string, port u16], listeners_end @]"
)


def without_listeners(frame: bytes, version: int) -> Slices[bytes]:
    """A DescribeQuorum response without the listeners of its nodes; yields between two slices.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    if version < _FIRST_WITH_NODES:
        return frame
    parts: list[bytes] = []
    done = 0

    def empty(listeners_at: int, listeners_end: int) -> None:
        nonlocal done
        parts.extend((frame[done:listeners_at], write_array_length(0, flexible=True)))
        done = listeners_end

    yield from _NODES.slices(response_body(frame, ApiKey.DESCRIBE_QUORUM, version), version, nodes=empty)
    return b"".join([*parts, frame[done:]])
