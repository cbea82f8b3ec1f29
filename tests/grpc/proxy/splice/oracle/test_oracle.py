"""The oracle detects sessions that change frames."""

from collections.abc import Callable, Sequence

import pytest
from h2.exceptions import ProtocolError
from tests.grpc.proxy.splice.oracle.endings import check, finish
from tests.grpc.proxy.splice.oracle.play import Play
from tests.grpc.proxy.splice.oracle.reshape import (
    ACK,
    DATA,
    END_STREAM,
    HEAD,
    SETTINGS,
    WINDOW_UPDATE,
    Cutter,
    Frame,
)

from sluicegate.broker import BaseSession, Command, ToClient, ToUpstream

_PROGRAM = [("other", 1, 4), ("settle", 0, 0), ("send", 0, 3), ("settle", 0, 0), ("publish", 0, 4)]


class Meddling(BaseSession):
    """Passes every frame through a function; None loses it."""

    def __init__(self, meddle: Callable[[Frame], bytes | None]) -> None:
        self._meddle = meddle
        self._client, self._server = Cutter(has_preface=True), Cutter(has_preface=False)
        self._greeted = False

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        out = self._through(self._client, data)
        if not self._greeted:
            self._greeted, out = True, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + out
        return [ToUpstream(out)]

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        return [ToClient(self._through(self._server, data))]

    def _through(self, cutter: Cutter, data: bytes) -> bytes:
        return b"".join(self._meddle(found) or b"" for found in cutter.feed(data))


def loses_credit(found: Frame) -> bytes | None:
    return None if found.type == WINDOW_UPDATE and found.stream == 0 else found.to_bytes()


def loses_acknowledgement(found: Frame) -> bytes | None:
    return None if found.type == SETTINGS and found.flags & ACK else found.to_bytes()


def changes_a_byte(found: Frame) -> bytes | None:
    raw = bytearray(found.to_bytes())
    if found.type == DATA and found.payload:
        raw[HEAD + len(found.payload) // 2] ^= 1
    return bytes(raw)


def repeats_data(found: Frame) -> bytes | None:
    first = Frame(DATA, found.flags & ~END_STREAM, found.stream, found.payload)
    return (first.to_bytes() if found.type == DATA else b"") + found.to_bytes()


def opens_too_far(found: Frame) -> bytes | None:
    raw = found.to_bytes()
    return raw[:-4] + b"\x7f\xff\xff\xff" if found.type == WINDOW_UPDATE else raw


@pytest.mark.parametrize(
    "meddle", [loses_credit, loses_acknowledgement, changes_a_byte, repeats_data, opens_too_far]
)
def test_the_oracle_detects_a_changed_message(meddle: Callable[[Frame], bytes | None]) -> None:
    with pytest.raises((AssertionError, ProtocolError)):
        _play(Play(seed=0, session=Meddling(meddle)))


def test_the_oracle_accepts_an_unchanged_exchange() -> None:
    _play(Play(seed=0, session=Meddling(Frame.to_bytes)))


def _play(one: Play) -> None:
    for name, a, b in _PROGRAM:
        one.step(name, a, b)
    finish(one)
    check(one)
