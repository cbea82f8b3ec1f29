"""A read full of small frames is handled in several turns of the event loop, in order."""

import gzip
import struct
from collections.abc import Sequence
from itertools import pairwise

import pytest
from tests.bench import Bench
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import ATTACH, PUBLISH, TOPIC, Talk, front

from sluicegate.broker import PASS, Ask, Command, NextTurn, ToClient, ToUpstream
from sluicegate_grpc.proxy.splice import Limits, frame_stream
from sluicegate_grpc.proxy.splice.blocks import encode
from sluicegate_grpc.proxy.splice.deciding import NEW_TOPIC_WORK
from sluicegate_grpc.proxy.splice.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEADERS,
    WINDOW_UPDATE,
    frame,
    read_head,
    window_update,
)

FRAMES = 1_088
"""Frames that one turn takes if none is HEADERS or has DATA to look at, and all are tiny."""


def opened() -> tuple[Talk, int]:
    """A connection with a call of a method that no policy asks about."""
    talk = Talk()
    return talk, talk.call("/t.Other/Call", b"", end=False)


def kinds(commands: list[Command], side: type[ToUpstream] | type[ToClient] = ToUpstream) -> list[int]:
    """Kinds of the frames that go to one side."""
    data = b"".join(bytes(command.data) for command in commands if isinstance(command, side))
    found, at = [], 0
    while at < len(data):
        high, low, kind, _, _ = read_head(data, at)
        found.append(kind)
        at += HEAD + (high << 8 | low)
    return found


def forwarded(commands: Sequence[Command]) -> bytes:
    """What goes to the broker."""
    return b"".join(bytes(command.data) for command in commands if isinstance(command, ToUpstream))


def question(commands: list[Command]) -> NextTurn | None:
    """The turn that is asked for, if there is one."""
    asked = [command.question for command in commands if isinstance(command, Ask)]
    assert len(asked) <= 1
    if not asked:
        return None
    assert isinstance(asked[0], NextTurn)
    return asked[0]


@pytest.mark.parametrize("one", [frame(DATA, 0, 1, b"x"), window_update(0, 1)])
def test_a_turn_handles_a_bounded_number_of_frames(one: bytes) -> None:
    talk, stream = opened()
    assert stream == 1
    data = one * (2 * FRAMES + 3)
    commands = list(talk.session.receive_client(data, talk.wire.now))
    numbers = [len(kinds(commands))]
    while turn := question(commands):
        commands = list(talk.session.answered(turn, None, talk.wire.now))
        numbers.append(len(kinds(commands)))
    assert numbers == [FRAMES, FRAMES, 3]
    assert talk.shared.services.budget.used == 0


def test_later_bytes_queue_behind_the_rest() -> None:
    talk, _ = opened()
    many = frame(DATA, 0, 1, b"x") * (FRAMES + 1)
    first = list(talk.session.receive_client(many, talk.wire.now))
    turn = question(first)
    assert turn is not None
    behind = list(
        talk.session.receive_client(window_update(1, 5) + frame(DATA, END_STREAM, 1), talk.wire.now)
    )
    assert behind == []
    rest = list(talk.session.answered(turn, None, talk.wire.now))
    assert kinds(rest) == [DATA, WINDOW_UPDATE, DATA]
    assert question(rest) is None


@pytest.mark.parametrize("meanwhile", [0, 1, 6, 7, 30])
@pytest.mark.parametrize("there", [3, HEAD, HEAD + 4])
def test_a_turn_that_ends_within_a_frame_loses_nothing(there: int, meanwhile: int) -> None:
    """Of the last frame, so many bytes are there when the turn is used up, and some come before the next."""
    talk, stream = opened()
    many = b"".join(frame(DATA, 0, stream, bytes([number % 251])) for number in range(FRAMES))
    last = frame(DATA, 0, stream, b"0123456") + window_update(0, 5) + frame(DATA, END_STREAM, stream, b"z")
    sent = many + last
    reads = [many + last[:there], last[there : there + meanwhile], last[there + meanwhile :]]

    def receive(data: bytes) -> Sequence[Command]:
        commands = talk.session.receive_client(data, talk.wire.now) if data else ()
        return [ToUpstream(data)] if commands is PASS else commands

    commands = [*receive(reads[0])]
    turn = question(commands)
    assert (turn is not None) == (there >= HEAD), "only what may be a whole frame waits for a turn"
    commands += receive(reads[1])
    if turn is not None:
        commands += talk.session.answered(turn, None, talk.wire.now)
    commands += receive(reads[2])
    assert forwarded(commands) == sent
    assert talk.session.held_bytes == talk.shared.services.budget.used == 0


def test_the_brokers_frames_take_turns_of_their_own() -> None:
    talk, _ = opened()
    talk.answer(1, end=False)
    number = FRAMES + 10
    down = list(talk.session.receive_upstream(frame(DATA, 0, 1, b"x") * number, talk.wire.now))
    turn = question(down)
    assert turn is not None
    up = talk.session.receive_client(frame(DATA, 0, 1, b"x"), talk.wire.now)
    assert up is PASS, "the other direction goes on"
    rest = list(talk.session.answered(turn, None, talk.wire.now))
    assert len(kinds(down, ToClient)) + len(kinds(rest, ToClient)) == number


def test_calls_are_decided_in_slices_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_stream, "WORK_PER_TURN", 20 * frame_stream.CALL_WORK)
    talk = Talk(front(max_publish_rate=1_000_000))
    talk.attach()
    gate = talk.shared.services.gates.get(TOPIC, False, talk.wire.now)
    streams = [
        talk.call(PUBLISH, service.publish(TOPIC, 7, struct.pack(">I", number)), settled=False)
        for number in range(50)
    ]
    talk.wire.collect()
    seen = [gate.state.allowed_messages]
    talk.wire.move(talk.wire.to_gate, talk.wire.to_gate.size)
    seen.append(gate.state.allowed_messages)
    while talk.wire.take_turn():
        seen.append(gate.state.allowed_messages)
    assert seen[-1] - seen[0] == len(streams)
    assert max(after - before for before, after in pairwise(seen)) <= 10  # each is HEADERS and DATA
    talk.wire.settle()
    assert [stream for stream in talk.wire.server.seen if stream in streams] == streams


def test_calls_for_new_topics_take_more_turns() -> None:
    talk = Talk(front(Bench(max_producers_per_topic=5)))
    talk.attach()
    gates = talk.shared.services.gates
    seen = [gates.compiled]
    for number in range(60):
        talk.call(ATTACH, service.message((1, f"t{number}"), (2, "p"), (3, 1)), settled=False)
    talk.wire.collect()
    talk.wire.move(talk.wire.to_gate, talk.wire.to_gate.size)
    seen.append(gates.compiled)
    while talk.wire.take_turn():
        seen.append(gates.compiled)
    assert seen[-1] - seen[0] == 60
    assert (
        max(after - before for before, after in pairwise(seen))
        <= 1 + frame_stream.WORK_PER_TURN // NEW_TOPIC_WORK
    )
    talk.hang_up()
    assert talk.shared.services.budget.used == 0


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (service.field(4, bytes(2**20)), "3"),  # more than is inflated
        (service.field(4, bytes(2**20 - 100)), "0"),
        (b"\x20\x00" * 9_990, "0"),
        (b"\x20\x00" * 20_000, "3"),
    ],
)
def test_what_a_compressed_message_takes_counts_in_its_turn(rest: bytes, status: str) -> None:
    talk = Talk(front(limits=Limits(message_bytes=2**20)))
    talk.attach()
    raw = b"".join((service.field(1, TOPIC), service.field(2, 7), service.field(3, b"x"), rest))
    packed = service.framed(gzip.compress(raw), compressed=1)
    streams = [talk.call(PUBLISH, packed, ("grpc-encoding", "gzip"), settled=False) for _ in range(3)]
    gate = talk.shared.services.gates.get(TOPIC, False, talk.wire.now)
    seen = [0]
    talk.wire.collect()
    talk.wire.move(talk.wire.to_gate, talk.wire.to_gate.size)
    seen.append(gate.state.allowed_messages + talk.shared.counts["call_refused"])
    while talk.wire.take_turn():
        seen.append(gate.state.allowed_messages + talk.shared.counts["call_refused"])
    assert max(after - before for before, after in pairwise(seen)) == 1
    assert seen[-1] == len(streams)
    talk.wire.settle()
    assert [talk.client(stream).status or "0" for stream in streams] == [status] * 3


@pytest.mark.parametrize(("fields", "turns"), [(400, 5), (20, 1)])
def test_headers_of_many_fields_take_more_turns(fields: int, turns: int) -> None:
    talk, stream = opened()
    more = (("x", "y"),) * (fields - 7)
    requests = [encode(service.request("/t.Other/Call", ("n", str(each)), *more)) for each in range(5)]
    frames = [
        frame(HEADERS, END_HEADERS | END_STREAM, stream + 2 * number, block)
        for number, block in enumerate(requests, 1)
    ]
    commands = list(talk.session.receive_client(b"".join(frames), talk.wire.now))
    taken = 1
    while turn := question(commands):
        commands = list(talk.session.answered(turn, None, talk.wire.now))
        taken += 1
    assert taken == turns
    assert talk.session.open_calls == 1 + len(frames)


def test_a_client_that_disconnects_between_turns_leaves_nothing_behind() -> None:
    talk, _ = opened()
    talk.session.receive_client(frame(DATA, 0, 1, b"x") * (2 * FRAMES), talk.wire.now)
    assert talk.shared.services.budget.used > 0
    talk.hang_up()


def test_a_closed_connection_releases_its_places_in_slices() -> None:
    talk = Talk(front(Bench(max_producers_per_topic=5)))
    for number in range(250):
        stream = talk.call(ATTACH, service.message((1, f"t{number}"), (2, "p"), (3, 1)))
        talk.answer(stream, service.message((1, 100 + number)))

    def attached() -> int:
        return sum(len(state.producers) for state in talk.shared.services.gates.states.values())

    seen = [attached()]
    for _ in talk.session.parting(talk.wire.now):
        seen.append(attached())
    seen.append(attached())
    assert (seen[0], seen[-1]) == (250, 0)
    assert max(before - after for before, after in pairwise(seen)) <= 100
    assert talk.shared.services.budget.used == 0
