"""The producer of a receipt or an error, against protobuf."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import PING, frame_of, messages, scrambled

from sluicegate_pulsar.codec import receipts
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, SendError, SendReceipt
from sluicegate_pulsar.codec.receipts import producer_of


@settings(deadline=None)
@given(st.data())
def test_any_order_of_fields(data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        command = BaseCommand(type=BaseCommand.SEND_RECEIPT, send_receipt=data.draw(messages(SendReceipt)))
        expected = command.send_receipt.producer_id
    else:
        command = BaseCommand(type=BaseCommand.SEND_ERROR, send_error=data.draw(messages(SendError)))
        expected = command.send_error.producer_id
    for raw in (command.SerializeToString(), data.draw(scrambled(command))):
        frame = frame_of(raw)
        assert producer_of(b"##" + frame + b"##", 2, 2 + len(frame)) == expected


def test_the_usual_frame_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = SendReceipt(producer_id=127, sequence_id=2**40, message_id={"ledger_id": 1, "entry_id": 2})
    frame = command_frame(BaseCommand(type=BaseCommand.SEND_RECEIPT, send_receipt=receipt))
    error = SendError(producer_id=5, sequence_id=6, error=22, message="no")
    refused = command_frame(BaseCommand(type=BaseCommand.SEND_ERROR, send_error=error))
    monkeypatch.setattr(receipts, "parse_command", None)
    assert producer_of(frame, 0, len(frame)) == 127
    assert producer_of(refused, 0, len(refused)) == 5


def test_frames_other_than_receipts() -> None:
    with pytest.raises(ProtocolError, match="a command of type 18, expected SEND_RECEIPT or SEND_ERROR"):
        producer_of(PING, 0, len(PING))
    with pytest.raises(ProtocolError, match="without send_receipt"):
        producer_of(frame_of(b"\x08\x07"), 0, 10)
