"""The wire for sessions does what a gateway does for one client."""

from collections.abc import Sequence

import pytest

from sluicegate.api import (
    PASS,
    Ask,
    BaseSession,
    Close,
    CloseReason,
    Command,
    Dial,
    NextTurn,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate.testing import SessionWire

SECOND = 1_000_000_000


class Reason(CloseReason):
    """Why it closes."""

    GONE = "gone", "The client hung up."


class Idle(BaseSession):
    """Closes a client that is silent for 30 s after its last bytes; asks for what begins with `?`."""

    def __init__(self) -> None:
        self.due_ns = 0
        self.parted = False

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        self.due_ns = now_ns + 30 * SECOND
        if data.startswith(b"?"):
            return [Ask(data.decode()), Ask(NextTurn()), PauseReading()]
        if data == b"dial":
            return [Dial((("b", 1),))]
        return PASS if data == b"pass" else [ToUpstream(data), WakeAt(self.due_ns)]

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        return PASS

    def dialled(self, now_ns: int) -> Sequence[Command]:
        return [ToUpstream(b"hello")]

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        return [ToClient(f"{answer}".encode()), ResumeReading()]

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        return [Close(Reason.GONE if client_gone else None)] if now_ns >= self.due_ns else ()

    def closed(self, now_ns: int) -> None:
        self.parted = True


@pytest.fixture
def wire() -> SessionWire[Idle]:
    return SessionWire(Idle())


def test_bytes_reach_both_ends_passed_on_or_sent(wire: SessionWire[Idle]) -> None:
    wire.client_sends(b"pa", b"ss")
    wire.client_sends(b"sent")
    wire.broker_sends(b"back")
    assert (wire.upstream, wire.downstream) == (b"passsent", b"back")
    wire.forget()
    assert [type(command) for command in wire.commands] == [WakeAt]


def test_bytes_arrive_in_pieces_as_a_network_may_cut_them(wire: SessionWire[Idle]) -> None:
    wire.client_sends(b"sent", piece=3)
    assert [command.data for command in wire.commands if isinstance(command, ToUpstream)] == [b"sen", b"t"]
    wire.broker_sends(b"ba", b"ck", piece=1)
    assert sum(isinstance(command, ToClient) for command in wire.commands) == 4
    assert wire.downstream == b"back"


def test_a_dial_succeeds_at_once(wire: SessionWire[Idle]) -> None:
    wire.client_sends(b"dial")
    assert wire.upstream == b"hello"


def test_time_passes_with_the_wake_ups_that_were_asked_for(wire: SessionWire[Idle]) -> None:
    assert not wire.wake()
    wire.client_sends(b"sent")
    began = wire.now
    assert wire.wake_at == began + 30 * SECOND
    wire.wait(29)
    assert (wire.closed, wire.now) == (None, began + 29 * SECOND)
    wire.wait(2, client_gone=True)
    assert (wire.closed, wire.now) == (Close(Reason.GONE), began + 31 * SECOND)


def test_questions_and_turns_are_the_tests_to_answer(wire: SessionWire[Idle]) -> None:
    wire.client_sends(b"?name")
    paused = [wire.is_paused]
    assert wire.take_turns() == 1
    assert wire.asked == ["?name"]
    wire.front_answers("?name", "orders")
    paused.append(wire.is_paused)
    assert paused == [True, False]
    assert wire.downstream == b"Noneorders"


def test_closing_parts_with_the_session_as_a_gateway_does() -> None:
    wire = SessionWire(Idle(), now_ns=5)
    wire.close()
    assert wire.session.parted
    assert wire.now == 5
