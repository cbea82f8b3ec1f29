"""How a play ends: everything is brought to its end, and then nothing may be left or be missing."""

from h2.settings import SettingCodes
from tests.bench import SECOND
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.play import Call, Play

_ROUNDS = 400
_UNTIMED = {"", gate.FREE, gate.SMALL}
"""Topics whose calls never wait for the clock."""


def finish(play: Play) -> None:
    """Both sides do all that is left to them."""
    for peer in (play.client, play.server):
        peer.change({SettingCodes.INITIAL_WINDOW_SIZE: 200_000})
    _work(play)
    waiting = [call for call in play.calls.values() if not play.is_closed(call) and call.topic in _UNTIMED]
    assert not waiting, f"held up without a limit of their own: {waiting}"
    for _ in range(_ROUNDS):
        if play.wire.wake_at is None and not any(not play.is_closed(call) for call in play.calls.values()):
            break
        play.wire.pass_time(SECOND)
        _work(play)


def _work(play: Play) -> None:
    """All that can be done while the clock stands still."""
    while True:
        play.wire.settle()
        before = _progress(play)
        for call in play.calls.values():
            if play.may_send(call):
                play.send(call, 3)
            if play.may_answer(call) and play.server.seen[call.stream].is_ended:
                play.answer(call, 3)
        for peer in (play.client, play.server):
            peer.give_back(0, peer.owed)
            for stream in list(peer.seen):
                if play.may_give_back(peer, stream):
                    peer.give_back(stream, peer.seen[stream].owed)
        play.wire.settle()
        if _progress(play) == before:
            return


def _progress(play: Play) -> object:
    calls = [(call.sent, call.is_ended, call.answered, call.is_over) for call in play.calls.values()]
    streams = [*play.client.seen.values(), *play.server.seen.values()]
    seen = [(len(seen.data), seen.is_over, seen.owed) for seen in streams]
    return calls, seen, play.client.owed, play.server.owed


def check(play: Play) -> None:
    """What must hold whatever was played."""
    wire = play.wire
    assert wire.closed is None
    assert not wire.is_paused
    for call in play.calls.values():
        _check_request(play, call)
        _check_response(play, call)
    assert len(play.client.pings) == play.pings
    for peer in (play.client, play.server):
        assert peer.acknowledged == peer.sent_settings, "SETTINGS and their acknowledgements go in pairs"
        assert not peer.goaways
    # What the session has granted for its own account is more than the receiver has granted so far.
    assert play.client.outbound >= play.server.inbound, "the client's window is not the server's"
    assert play.server.outbound >= play.client.inbound, "the server's window is not the client's"
    assert wire.session.held_bytes == 0
    wire.hang_up()
    assert play.front.services.budget.used == 0


def _check_request(play: Play, call: Call) -> None:
    """What the server got is what the client sent, and it never got what was refused."""
    got = play.server.seen.get(call.stream)
    if got is None:
        return
    assert call.request.startswith(got.data), f"stream {call.stream}: other bytes than were sent"
    if got.is_ended:
        assert len(got.data) == call.sent
    if call.must_fail and not call.was_reset:
        assert not got.is_ended
        assert len(got.data) < len(call.request)
        assert got.reset is not None, f"stream {call.stream} was refused, and the server waits for it"


def _check_response(play: Play, call: Call) -> None:
    """What the client got is what the server sent, and it was told of each refusal."""
    got = play.client.seen[call.stream]
    if call.topic == gate.DROPPING and call.path == service.RECEIVE:
        _check_subsequence(bytes(got.data), call.response)
    else:
        assert call.response.startswith(got.data), f"stream {call.stream}: other bytes than were sent"
    if call.is_cancelled:
        return
    if call.must_fail:
        assert got.status == "3" or call.is_over
        return
    assert got.is_over, f"stream {call.stream} never ended: {call}"
    if got.status == "0" and got.reset is None and call.topic != gate.DROPPING:
        assert bytes(got.data) == call.response


def _check_subsequence(got: bytes, sent: bytes) -> None:
    left = iter(service.messages(sent))
    for each in service.messages(got):
        assert each in left, "a message that was not sent, or not in this order"
