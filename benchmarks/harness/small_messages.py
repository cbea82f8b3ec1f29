"""Connections that publish small messages, as bytes; the same ones each time."""

import struct
from collections.abc import Callable, Mapping

from danube.proto import DanubeApi_pb2 as danube

from benchmarks.harness import http2_bytes as http2
from benchmarks.harness import kafka_long_bytes as kafka
from benchmarks.harness import pulsar_bytes as pulsar
from benchmarks.harness.conversation import Conversation, Read, pipelined

_FAR_OFF: Mapping[str, object] = {
    "max_message_size": "1MiB",
    "max_publish_rate": "1M/s",
    "max_producers_per_topic": 100,
}

# -- Kafka ----------------------------------------------------------------------------------------

_RECORD = b"\xd6\1\0\0\0\1\xc8\1" + bytes(100) + b"\0"
"""A record with a value of 100 bytes, without key and headers."""
_TOPIC = "benchmark"


def kafka_produce(count: int = 20_000) -> Conversation:
    """Produce requests (version 12, acks=all) of one record each, five in flight."""
    versions = struct.pack(">h", 0) + kafka.array(
        struct.pack(">hhh", *each) for each in ((0, 3, 12), (1, 4, 17), (3, 0, 13), (18, 0, 4))
    )
    opening = [
        (True, kafka.request(18, 0, b"")),
        (False, kafka.response(versions)),
        (True, kafka.metadata()),
        (False, kafka.described([_TOPIC])),
    ]
    records = kafka.batch(_RECORD, 1)
    requests = [produce_request(records, number) for number in range(count)]
    reads = pipelined(requests, [produced(number) for number in range(count)], 5, 0.7)
    return Conversation("kafka", _FAR_OFF, opening, reads)


def produce_request(records: bytes, number: int) -> bytes:
    """A Produce request (version 12, acks=all) of one batch.

    :param number: its correlation id.
    """
    body = b"\0" + struct.pack(">hi", -1, 30_000) + b"\2" + kafka.compact(_TOPIC) + b"\2" + bytes(4)
    body += kafka.uvarint(len(records) + 1) + records + bytes(3)
    return kafka.request(0, 12, body, flexible=True, correlation_id=number)


def produced(number: int) -> bytes:
    """The answer to a request of that number: no error, at an offset of the same number."""
    partition = struct.pack(">ihqqq", 0, 0, number, -1, 0) + b"\1\0\0"
    body = b"\0\2" + kafka.compact(_TOPIC) + b"\2" + partition + b"\0" + bytes(4) + b"\0"
    return kafka.response(body, correlation_id=number)


# -- Pulsar ---------------------------------------------------------------------------------------


def pulsar_send(count: int = 20_000) -> Conversation:
    """Messages of 100 bytes, not batched, up to 1,000 without a receipt."""
    opening = [
        (True, pulsar.command("connect", client_version="Pulsar-CPP-v4.2.0", protocol_version=20)),
        (False, pulsar.command("connected", server_version="Pulsar Server4.2.4", protocol_version=20)),
        (
            True,
            pulsar.command(
                "producer", topic=f"persistent://public/default/{_TOPIC}", producer_id=0, request_id=1
            ),
        ),
        (False, pulsar.command("producer_success", request_id=1, producer_name="p-0")),
    ]
    requests = [pulsar.send(n, bytes(100), publish_time=1_700_000_000_000) for n in range(count)]
    receipts = [
        pulsar.command(
            "send_receipt", producer_id=0, sequence_id=n, message_id={"ledger_id": 1, "entry_id": n}
        )
        for n in range(count)
    ]
    return Conversation("pulsar", _FAR_OFF, opening, pipelined(requests, receipts, 1_000, 30))


# -- gRPC -----------------------------------------------------------------------------------------

_SERVICE = "/danube.ProducerService/"
_SMALLEST_TABLE = b"\x20"
"""The encoder begins with an empty table (RFC 7541, section 6.3), as the gateway asks of both sides."""
_READS_OF_A_WINDOW = 4
"""A client opens its window once for so many."""
_ANSWERED = b"\x88" + http2.literal("content-type", "application/grpc")
_TRAILERS = http2.literal("grpc-status", "0")


def grpc_unary(count: int = 8_000) -> Conversation:
    """Publishes of 64 bytes to Danube's API, each a call of its own, 64 in flight."""
    settings = http2.frame(http2.SETTINGS, 0, 0)
    acknowledged = http2.frame(http2.SETTINGS, http2.ACK, 0)
    topic = f"/default/{_TOPIC}"
    create = danube.ProducerRequest(request_id=1, producer_name="p", topic_name=topic).SerializeToString()
    created = danube.ProducerResponse(request_id=1, producer_id=4, producer_name="p").SerializeToString()
    opening = [
        (True, http2.PREFACE + settings),
        (False, settings + acknowledged),
        (True, acknowledged + _call(1, "CreateProducer", create, _SMALLEST_TABLE)),
        (False, _answer(1, created, _SMALLEST_TABLE)),
    ]
    publish = danube.StreamMessage(
        request_id=1, msg_id={"producer_id": 4, "topic_name": topic}, payload=bytes(64)
    ).SerializeToString()
    published = danube.MessageResponse(request_id=1).SerializeToString()
    streams = range(3, 3 + 2 * count, 2)
    requests = [_call(stream, "SendMessage", publish) for stream in streams]
    answers = [_answer(stream, published) for stream in streams]
    reads: list[Read] = []
    for place, (is_client, data) in enumerate(pipelined(requests, answers, 64, 16)):
        # Both sides open the connection's window again for what they took, as grpc-go does.
        if not is_client:
            taken = len(data) // len(answers[0]) * len(http2.message(publish))
            reads.append((is_client, data + http2.window(taken)))
        elif place % _READS_OF_A_WINDOW == 0:
            taken = len(data) // len(requests[0]) * len(http2.message(published))
            reads.append((is_client, data + http2.window(taken * _READS_OF_A_WINDOW)))
        else:
            reads.append((is_client, data))
    return Conversation("danube", _FAR_OFF, opening, reads)


def _call(stream: int, method: str, content: bytes, before: bytes = b"") -> bytes:
    head = http2.frame(http2.HEADERS, http2.END_HEADERS, stream, before + http2.request(_SERVICE + method))
    return head + http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(content))


def _answer(stream: int, content: bytes, before: bytes = b"") -> bytes:
    head = http2.frame(http2.HEADERS, http2.END_HEADERS, stream, before + _ANSWERED)
    end = http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, _TRAILERS)
    return head + http2.frame(http2.DATA, 0, stream, http2.message(content)) + end


CASES: Mapping[str, Callable[[], Conversation]] = {
    "kafka": kafka_produce,
    "pulsar": pulsar_send,
    "grpc": grpc_unary,
}
"""By name on the command line."""
