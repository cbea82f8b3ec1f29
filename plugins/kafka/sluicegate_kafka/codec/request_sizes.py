"""How large requests may be, by API: large ones are for records, and for lists that administrators send.

Brokers read a whole request into memory, and build objects of some 50 times its size from a list of
short names. One Metadata request of 99 MiB crashes a broker with the default heap.
"""

from collections.abc import Mapping
from typing import Final

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError

LOGIN_BYTES: Final = 512 * 1024
"""What brokers take from clients that have not logged in (`sasl.server.max.receive.size`)."""
LIST_BYTES: Final = 8 * 1024 * 1024
"""Lists with an entry for each of a hundred thousand partitions, and what group leaders assign."""
OTHER_BYTES: Final = 1024 * 1024
"""All other requests, and those of APIs that the gateway does not know."""

_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_LISTS = (
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.CREATE_ACLS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
    ApiKey.OFFSET_DELETE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.PUSH_TELEMETRY,
)
_NAMES: Final[Mapping[int, str]] = {int(key): key.name.lower() for key in ApiKey}
API_KEYS: Final[Mapping[str, ApiKey]] = {key.name.lower(): key for key in ApiKey}
"""APIs by their names in the file, such as `metadata`."""
_TLS_HANDSHAKE = b"\x16\x03"


class RequestSizes(dict[int, int]):
    """Bytes of the largest request of each API, its length not counted.

    :param largest: bytes of any request; by default only Produce may be that large.
    :param chosen: bytes by API, instead of the defaults.
    """

    def __init__(self, largest: int, chosen: Mapping[ApiKey, int]) -> None:
        sizes = {
            ApiKey.PRODUCE: largest,
            **dict.fromkeys(_LOGIN, LOGIN_BYTES),
            **dict.fromkeys(_LISTS, LIST_BYTES),
            **chosen,
        }
        super().__init__({int(key): min(size, largest) for key, size in sizes.items()})
        self.largest = largest
        self._other = min(OTHER_BYTES, largest)

    def __missing__(self, api_key: int) -> int:
        return self._other


class TooLargeError(ProtocolError):
    """A request exceeds the limit of its API."""


def bad_length(data: bytes, at: int, length: int, sizes: RequestSizes) -> ProtocolError:
    """The error for an impossible request length.

    :param data: a buffer that holds the length and the API key.
    :param at: offset of the length.
    :param length: as it was read.
    :param sizes: the largest requests.
    """
    if data[at : at + 2] == _TLS_HANDSHAKE:
        return ProtocolError("a TLS hello on a plain listener")
    api_key = int.from_bytes(data[at + 4 : at + 6], "big", signed=True)
    if not sizes[api_key] < length <= sizes.largest:  # then these bytes are hardly Kafka's
        return ProtocolError(f"request of length {length!r}")
    text = f"request of length {length}, {sizes[api_key]} are the most"
    name = _NAMES.get(api_key)
    if name is None:
        return TooLargeError(f"api key {api_key}: {text}")
    return TooLargeError(f"{name} {text}; raise request_bytes.{name}")
