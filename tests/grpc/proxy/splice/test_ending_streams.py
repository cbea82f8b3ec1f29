"""A gateway that ends: streams of messages end with UNAVAILABLE, and so do requests until GOAWAY is sent."""

import pytest
from tests.bench import SECOND
from tests.grpc.proxy.splice.talk import RECEIVE, Talk, delivered

UNAVAILABLE = "14"
OTHER = "/t.Other/Anything"


def end(talk: Talk) -> None:
    """What the relay does again and again while the gateway ends."""
    talk.wire.carry_out(talk.session.ending(talk.wire.now))
    talk.wire.settle()


def is_closed(talk: Talk) -> bool:
    """Whether the gateway has closed the connection."""
    return talk.wire.closed is not None


def receiving(*messages: bytes) -> tuple[Talk, int]:
    """A client with an open stream of messages."""
    talk = Talk()
    talk.subscribe()
    stream = talk.receive()
    if messages:
        talk.answer(stream, *messages, end=False)
    return talk, stream


@pytest.mark.parametrize("messages", [0, 1])
def test_a_stream_of_messages_ends_with_a_status_before_the_connection(messages: int) -> None:
    talk, stream = receiving(*map(delivered, range(messages)))
    end(talk)
    assert (talk.client(stream).status, talk.client(stream).is_over) == (UNAVAILABLE, True)
    assert talk.client(stream).data == b"".join(map(delivered, range(messages)))
    assert talk.wire.client.goaways == []
    assert not is_closed(talk)
    talk.hang_up()


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_stream_that_is_opened_again_is_refused_and_then_the_connection_ends(is_whole: bool) -> None:
    talk, _ = receiving()
    end(talk)
    late = talk.call(RECEIVE, b"", end=is_whole)
    assert talk.refused(late)[0] == UNAVAILABLE
    end(talk)
    assert not is_closed(talk)
    talk.wire.pass_time(SECOND)
    end(talk)
    (goaway,) = talk.wire.client.goaways
    assert int.from_bytes(goaway.payload[:4]) == late
    assert is_closed(talk)
    talk.hang_up()


def test_goaway_waits_for_calls_beside_a_stream_of_messages() -> None:
    talk, _ = receiving()
    asked = talk.call(OTHER, b"x")
    end(talk)
    talk.wire.pass_time(SECOND)
    end(talk)
    assert talk.refused(talk.call(OTHER, b"x"))[0] == UNAVAILABLE
    assert talk.wire.client.goaways == []
    talk.answer(asked)
    assert talk.client(asked).status == "0"
    end(talk)
    assert len(talk.wire.client.goaways) == 1
    assert is_closed(talk)
    talk.hang_up()
