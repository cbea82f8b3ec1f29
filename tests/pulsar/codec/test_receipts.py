"""The producer of a receipt or an error, against protobuf."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import PING, frame_of, messages, scrambled

from sluicegate_pulsar.codec import receipts
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, SendError, SendReceipt
from sluicegate_pulsar.codec.receipts import producer_of


def _receipt(**fields: Any) -> bytes:
    command = BaseCommand(type=BaseCommand.SEND_RECEIPT, send_receipt=SendReceipt(**fields))
    return frame_of(command.SerializeToString())


def _error(**fields: Any) -> bytes:
    command = BaseCommand(type=BaseCommand.SEND_ERROR, send_error=SendError(**fields))
    return frame_of(command.SerializeToString())


_SHORTEST = _receipt(producer_id=5, sequence_id=6)


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
    stored = _receipt(producer_id=127, sequence_id=2**40, message_id={"ledger_id": 1, "entry_id": 2})
    refused = _error(producer_id=5, sequence_id=6, error=22, message="no")
    monkeypatch.setattr(receipts, "parse_command", None)
    for frame, producer_id in ((stored, 127), (refused, 5), (_SHORTEST, 5)):
        assert producer_of(frame, 0, len(frame)) == producer_id
        assert producer_of(b"##" + frame + b"##", 2, 2 + len(frame)) == producer_id


def test_what_follows_a_short_frame_does_not_complete_it() -> None:
    assert len(_SHORTEST) == 16
    short, missing = frame_of(_SHORTEST[8:15]), _SHORTEST[15:]
    for buffer, start in ((short + missing, 0), (b"##" + short + missing, 2)):
        with pytest.raises(ProtocolError, match="cannot be read"):
            producer_of(buffer, start, start + 15)


def test_a_long_number_is_not_taken_for_a_short_one() -> None:
    """The producer id ends as the tag of a sequence id; the length ends as the tag of a producer id."""
    long_id = _receipt(producer_id=0x10 << 7, sequence_id=6)
    long_text = _error(producer_id=0x10, sequence_id=6, error=22, message="n" * 1_015)
    assert (long_id[13:15], long_text[11:13]) == (b"\x80\x10", b"\x80\x08")
    assert producer_of(long_id, 0, len(long_id)) == 0x10 << 7
    assert producer_of(long_text, 0, len(long_text)) == 0x10


def test_frames_other_than_receipts() -> None:
    with pytest.raises(ProtocolError, match="a command of type 18, expected SEND_RECEIPT or SEND_ERROR"):
        producer_of(PING, 0, len(PING))
    with pytest.raises(ProtocolError, match="without send_receipt"):
        producer_of(frame_of(b"\x08\x07"), 0, 10)
