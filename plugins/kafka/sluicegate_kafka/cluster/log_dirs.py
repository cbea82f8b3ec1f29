"""DescribeLogDirs 4: the first version with volume sizes (KIP-827), which aiokafka lacks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from sluicegate_kafka.codec import errors

_DESCRIBE_LOG_DIRS = 35
_STRING = CompactString("utf-8")

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""


class _LogDirs(Response):  # type: ignore[misc]
    API_KEY = _DESCRIBE_LOG_DIRS
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "results",
            CompactArray(
                ("error_code", Int16),
                ("log_dir", _STRING),
                (
                    "topics",
                    CompactArray(
                        ("name", _STRING),
                        (
                            "partitions",
                            CompactArray(
                                ("partition_index", Int32),
                                ("partition_size", Int64),
                                ("offset_lag", Int64),
                                ("is_future_key", Boolean),
                                ("tags", TaggedFields),
                            ),
                        ),
                        ("tags", TaggedFields),
                    ),
                ),
                ("total_bytes", Int64),
                ("usable_bytes", Int64),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _LogDirsRequest(RequestStruct):  # type: ignore[misc]
    API_KEY = _DESCRIBE_LOG_DIRS
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _LogDirs
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic", _STRING),
                ("partitions", CompactArray(Int32)),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class AskLogDirs(Request[_LogDirsRequest]):  # type: ignore[misc]
    """The question.

    :param partitions: to return sizes of as well; may be empty.
    """

    API_KEY = _DESCRIBE_LOG_DIRS

    def __init__(self, partitions: Iterable[Partition] = ()) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        self._topics: list[tuple[str, list[int], dict[int, bytes]]] = [
            (topic, numbers, {}) for topic, numbers in by_topic.items()
        ]

    def build(self, request_struct_class: type[_LogDirsRequest]) -> _LogDirsRequest:
        """Encode the request."""
        return request_struct_class(self._topics, {})


class OfflineLogDirError(Exception):
    """A log directory cannot be read by its own broker, so the usage of its volume is unknown."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory of one broker."""

    path: str
    total_bytes: int
    """Of the volume that it is on."""
    usable_bytes: int
    sizes: Mapping[Partition, int]
    """Bytes of the partitions that were asked for and are in it."""


def log_dirs(response: Any) -> list[LogDir]:
    """Read an answer.

    :raises aiokafka.errors.KafkaError: if the broker refuses, as it does without Describe on the cluster.
    :raises OfflineLogDirError: if one of its directories is offline.
    """
    if response.error_code != errors.NONE:
        raise for_code(response.error_code)("DescribeLogDirs")
    dirs = []
    for code, path, topics, total, usable, _ in response.results:
        if code != errors.NONE or total < 0 or usable < 0:
            raise OfflineLogDirError(
                f"log directory {path}: {for_code(code).__name__ if code else 'no size'}"
            )
        sizes = {
            (topic, number): size
            for topic, partitions, _ in topics
            for number, size, _, is_future, _ in partitions
            if not is_future
        }
        dirs.append(LogDir(path, total, usable, sizes))
    return dirs
