"""Frames in the broker's place, against what protobuf writes."""

from collections.abc import Callable

import pytest
from tests.pulsar.codec.strategies import frame_of

from sluicegate_pulsar.codec.own_frames import (
    close_consumer,
    close_producer,
    error,
    no_receipt,
    send_error,
    success,
)
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, ServerError

_NONE = 2**64 - 1
"""No request, no ledger, no entry: -1, which brokers write as an unsigned number."""
_NOWHERE = {"ledger_id": _NONE, "entry_id": _NONE}
_GONE = ServerError.TOPIC_NOT_FOUND


@pytest.mark.parametrize(
    ("make", "values", "kind", "fields"),
    [
        (error, (7, _GONE, "no"), "error", {"request_id": 7, "error": _GONE, "message": "no"}),
        (
            send_error,
            (3, 9, _GONE, "no"),
            "send_error",
            {"producer_id": 3, "sequence_id": 9, "error": _GONE, "message": "no"},
        ),
        (no_receipt, (3, 9), "send_receipt", {"producer_id": 3, "sequence_id": 9, "message_id": _NOWHERE}),
        (success, (7,), "success", {"request_id": 7}),
        (close_producer, (3, 7), "close_producer", {"producer_id": 3, "request_id": 7}),
        (close_producer, (3,), "close_producer", {"producer_id": 3, "request_id": _NONE}),
        (close_consumer, (4, 7), "close_consumer", {"consumer_id": 4, "request_id": 7}),
        (close_consumer, (4,), "close_consumer", {"consumer_id": 4, "request_id": _NONE}),
    ],
)
def test_a_frame_holds_one_command_with_all_its_fields(
    make: Callable[..., bytes], values: tuple[object, ...], kind: str, fields: object
) -> None:
    command = BaseCommand(type=BaseCommand.Type.Value(kind.upper()), **{kind: fields})  # type: ignore[arg-type]
    assert make(*values) == frame_of(command.SerializeToString())
