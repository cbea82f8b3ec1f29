"""The Kafka messages of the session tests, written and read by kio."""

import datetime
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i64
from tests.kafka.codec.entities import decode_request, decode_response, write_record_batch
from tests.kafka.session.wire import Wire, request, response

# kio's types are narrower than what it takes, so its modules are not checked here.
record_schema: Any = import_module("kio.records.schema")
produce_request: Any = import_module("kio.schema.produce.v9.request")
produce_response: Any = import_module("kio.schema.produce.v9.response")
fetch_request: Any = import_module("kio.schema.fetch.v12.request")
fetch_response: Any = import_module("kio.schema.fetch.v12.response")
join_request: Any = import_module("kio.schema.join_group.v5.request")
join_response: Any = import_module("kio.schema.join_group.v5.response")

PRODUCE, FETCH, JOIN = 0, 1, 11
Outcome = dict[tuple[str, int], tuple[int, str | None]]
"""(topic, partition) -> (error code, text)."""

_ZERO = datetime.timedelta(0)


def batch(
    *values: bytes,
    producer_id: int = -1,
    sequence: int = -1,
    timestamp_ms: int = 1_000,
    offset: int = 0,
    attributes: int = 0,
) -> bytes:
    """One uncompressed batch."""
    when = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    written = write_record_batch(
        record_schema.NewRecordBatch(
            producer_id=i64(producer_id),
            producer_epoch=i16(0 if producer_id >= 0 else -1),
            partition_leader_epoch=i32(0),
            base_sequence=i32(sequence),
            attributes=i16(attributes),
            records=tuple(
                record_schema.Record(
                    attributes=i8(0), timestamp=when, offset=place, key=None, value=value, headers=()
                )
                for place, value in enumerate(values)
            ),
        )
    )
    return offset.to_bytes(8, "big") + written[8:]


def produce(
    topics: Mapping[str, bytes | Mapping[int, bytes]],
    *,
    correlation_id: int = 1,
    acks: int = -1,
    client_id: str = "app",
) -> bytes:
    """A Produce request with one batch for partition 0 of each topic, or for each of its partitions."""
    entity = produce_request.ProduceRequest(
        acks=i16(acks),
        timeout=datetime.timedelta(seconds=30),
        topic_data=tuple(
            produce_request.TopicProduceData(
                name=topic,
                partition_data=tuple(
                    produce_request.PartitionProduceData(index=i32(index), records=batch)
                    for index, batch in ({0: records} if isinstance(records, bytes) else records).items()
                ),
            )
            for topic, records in topics.items()
        ),
    )
    return request(entity, correlation_id, client_id)


def produced(
    *topics: str, correlation_id: int = 1, offset: int = 5, error: ErrorCode = ErrorCode.none
) -> bytes:
    """The broker's answer that all went well, or did not."""
    entity = produce_response.ProduceResponse(
        responses=tuple(
            produce_response.TopicProduceResponse(
                name=topic,
                partition_responses=(
                    produce_response.PartitionProduceResponse(
                        index=i32(0), error_code=error, base_offset=i64(offset), record_errors=()
                    ),
                ),
            )
            for topic in topics
        ),
    )
    return response(entity, correlation_id)


def outcome(frame: bytes) -> Outcome:
    """What a Produce response tells."""
    _, entity = decode_response(frame, PRODUCE, 9)
    return {
        (topic.name, partition.index): (int(partition.error_code), partition.error_message)
        for topic in entity.responses
        for partition in topic.partition_responses
    }


def throttle_ms(frame: bytes) -> int:
    """The throttle time of a Produce response."""
    _, entity = decode_response(frame, PRODUCE, 9)
    return int(entity.throttle_time / datetime.timedelta(milliseconds=1))


def topics_of(frame: bytes) -> list[str]:
    """The topics of a Produce request."""
    return [topic.name for topic in decode_request(frame, PRODUCE, 9).topic_data]


def fetch(*topics: str, correlation_id: int = 1, max_wait_ms: int = 500, client_id: str = "app") -> bytes:
    """A Fetch request for partition 0 of each topic."""
    entity = fetch_request.FetchRequest(
        max_wait=datetime.timedelta(milliseconds=max_wait_ms),
        min_bytes=i32(1),
        topics=tuple(
            fetch_request.FetchTopic(
                topic=topic,
                partitions=(
                    fetch_request.FetchPartition(
                        partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1 << 20)
                    ),
                ),
            )
            for topic in topics
        ),
        forgotten_topics_data=(),
        rack_id="",
    )
    return request(entity, correlation_id, client_id)


def fetched(
    topics: Mapping[str, bytes],
    correlation_id: int = 1,
    high_watermark: int = 100,
    error: ErrorCode = ErrorCode.none,
) -> bytes:
    """The broker's answer with these records in partition 0 of each topic."""
    entity = fetch_response.FetchResponse(
        throttle_time=_ZERO,
        error_code=ErrorCode.none,
        responses=tuple(
            fetch_response.FetchableTopicResponse(
                topic=topic,
                partitions=(
                    fetch_response.PartitionData(
                        partition_index=i32(0),
                        error_code=error,
                        high_watermark=i64(high_watermark),
                        last_stable_offset=i64(high_watermark),
                        log_start_offset=i64(0),
                        aborted_transactions=(),
                        records=records,
                    ),
                ),
            )
            for topic, records in topics.items()
        ),
    )
    return response(entity, correlation_id)


def records_of(frame: bytes) -> dict[str, bytes]:
    """Topic -> records of a Fetch response."""
    _, entity = decode_response(frame, FETCH, 12)
    return {topic.topic: bytes(topic.partitions[0].records or b"") for topic in entity.responses}


def fetch_errors(frame: bytes) -> dict[str, int]:
    """Topic -> error code of partition 0 of a Fetch response."""
    _, entity = decode_response(frame, FETCH, 12)
    return {topic.topic: int(topic.partitions[0].error_code) for topic in entity.responses}


def subscription(*topics: str) -> bytes:
    """Member metadata of the consumer protocol, version 0."""
    out = (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return out + (-1).to_bytes(4, "big", signed=True)


def join(
    group: str,
    *topics: str,
    member: str = "",
    correlation_id: int = 1,
    client_id: str = "app",
    instance_id: str | None = None,
) -> bytes:
    """A JoinGroup request of the consumer protocol."""
    entity = join_request.JoinGroupRequest(
        group_id=group,
        session_timeout=datetime.timedelta(seconds=10),
        rebalance_timeout=datetime.timedelta(seconds=10),
        member_id=member,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(join_request.JoinGroupRequestProtocol(name="range", metadata=subscription(*topics)),),
    )
    return request(entity, correlation_id, client_id)


def joined(member: str, error: ErrorCode = ErrorCode.none, correlation_id: int = 1) -> bytes:
    """The coordinator's answer to a join."""
    entity = join_response.JoinGroupResponse(
        throttle_time=_ZERO,
        error_code=error,
        generation_id=i32(1),
        protocol_name="range",
        leader=member,
        member_id=member,
        members=(),
    )
    return response(entity, correlation_id)


def join_error(frame: bytes) -> int:
    """The error code of a JoinGroup response."""
    entity: Any = decode_response(frame, JOIN, 5)[1]
    return int(entity.error_code)


def publish(wire: Wire, topics: Mapping[str, bytes], **options: Any) -> Outcome:
    """Send a Produce request whose forwarded parts the broker accepts; what the client then sees."""
    wire.client_sends(produce(topics, **options))
    for frame in wire.forwarded():
        wire.broker_sends(produced(*topics_of(frame), correlation_id=options.get("correlation_id", 1)))
    (answer,) = wire.answered()
    return outcome(answer)
