"""Frames that the gateway, or the reference broker, sends in the broker's place."""

from typing import Final

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import frame_of
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError

NO_REQUEST: Final = 2**64 - 1
"""Request id of what answers no request, as brokers write it."""
UNREADABLE: Final = (8).to_bytes(4) + (4).to_bytes(4) + b"\xff" * 4
"""A frame whose command no client can parse."""
_NOWHERE = 2**64 - 1


def error(request_id: int, code: ServerError, text: str) -> bytes:
    """An ERROR, the response to a failed request."""
    return frame_of(pb.Error(request_id=request_id, error=code, message=text))


def send_error(producer_id: int, sequence_id: int, code: ServerError, text: str) -> bytes:
    """A SEND_ERROR in place of the broker's receipt.

    :param sequence_id: of a batch the highest, by which clients that send it match the error to the batch.
    """
    return frame_of(pb.SendError(producer_id=producer_id, sequence_id=sequence_id, error=code, message=text))


def no_receipt(producer_id: int, sequence_id: int) -> bytes:
    """A SEND_RECEIPT for a message that is not stored, as brokers send for duplicates."""
    nowhere = pb.MessageIdData(ledger_id=_NOWHERE, entry_id=_NOWHERE)
    return frame_of(pb.SendReceipt(producer_id=producer_id, sequence_id=sequence_id, message_id=nowhere))


def success(request_id: int) -> bytes:
    """A SUCCESS, the response to a request without a result."""
    return frame_of(pb.Success(request_id=request_id))


def close_producer(producer_id: int, request_id: int = NO_REQUEST) -> bytes:
    """A CLOSE_PRODUCER: for a client, which then reopens the producer, or for the broker."""
    return frame_of(pb.CloseProducer(producer_id=producer_id, request_id=request_id))


def close_consumer(consumer_id: int, request_id: int = NO_REQUEST) -> bytes:
    """A CLOSE_CONSUMER, likewise."""
    return frame_of(pb.CloseConsumer(consumer_id=consumer_id, request_id=request_id))
