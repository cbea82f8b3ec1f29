"""DescribeLogDirs against kio's schema, which is made from Kafka's own."""

import io
from datetime import timedelta
from typing import Any

import pytest
from aiokafka.errors import ClusterAuthorizationFailedError
from kio.schema.describe_log_dirs.v4 import request as requests
from kio.schema.describe_log_dirs.v4 import response as responses
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from sluicegate_kafka.cluster.log_dirs import AskLogDirs, LogDir, OfflineLogDirError, log_dirs

VERSIONS = {35: (1, 4)}


def answer(*results: responses.DescribeLogDirsResult, error: ErrorCode = ErrorCode.none) -> Any:
    told = responses.DescribeLogDirsResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)), error_code=error, results=results
    )
    with io.BytesIO() as buffer:
        entity_writer(responses.DescribeLogDirsResponse)(buffer, told)
        return AskLogDirs().prepare(VERSIONS).RESPONSE_TYPE.decode(buffer.getvalue())


def result(path: str, total: int, usable: int, **more: Any) -> responses.DescribeLogDirsResult:
    fields: dict[str, Any] = {"error_code": ErrorCode.none, "topics": ()} | more
    return responses.DescribeLogDirsResult(
        log_dir=path, total_bytes=i64(total), usable_bytes=i64(usable), **fields
    )


def partition(number: int, size: int, *, is_future: bool = False) -> responses.DescribeLogDirsPartition:
    return responses.DescribeLogDirsPartition(
        partition_index=i32(number), partition_size=i64(size), offset_lag=i64(0), is_future_key=is_future
    )


def test_the_request_has_kafkas_format() -> None:
    sent = AskLogDirs([("a", 0), ("b", 7), ("a", 3)]).prepare(VERSIONS).encode()
    read, _ = entity_reader(requests.DescribeLogDirsRequest)(memoryview(sent), 0)
    assert [(each.topic, each.partitions) for each in read.topics or ()] == [("a", (0, 3)), ("b", (7,))]


def test_without_partitions_only_volumes_are_requested() -> None:
    sent = AskLogDirs().prepare(VERSIONS).encode()
    read, _ = entity_reader(requests.DescribeLogDirsRequest)(memoryview(sent), 0)
    assert read.topics == ()


@pytest.mark.seed("S4-034", "S4-035")
def test_each_directory_is_a_volume_with_the_sizes_of_what_is_in_it() -> None:
    topic = responses.DescribeLogDirsTopic(
        name=TopicName("a"), partitions=(partition(0, 100), partition(1, 9, is_future=True))
    )
    told = answer(result("/one", 1_000, 400, topics=(topic,)), result("/two", 500, 500))
    assert log_dirs(told) == [LogDir("/one", 1_000, 400, {("a", 0): 100}), LogDir("/two", 500, 500, {})]


def test_a_refusal_or_an_offline_directory_is_an_error() -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        log_dirs(answer(error=ErrorCode.cluster_authorization_failed))
    with pytest.raises(OfflineLogDirError, match="/one"):
        log_dirs(answer(result("/one", -1, -1, error_code=ErrorCode.kafka_storage_error)))
    with pytest.raises(OfflineLogDirError, match="no size"):
        log_dirs(answer(result("/one", -1, -1)))
