"""Feed the gRPC splice with what atheris makes up.

`pip install atheris && python -m tests.fuzz.fuzz_grpc`; not part of the test run. Any exception is a finding:
a session answers bad bytes by closing. An input is either frames of a client or of a broker, or the steps of
two h2 peers (`tests/grpc/proxy/splice/oracle`), whose protocol must not be broken by what is between them.
"""

import sys

import atheris  # type: ignore[import-untyped]  # installed only for fuzzing

with atheris.instrument_imports(include=["sluicegate_grpc"]):
    from tests.bench import START
    from tests.grpc.proxy.splice.oracle import gate
    from tests.grpc.proxy.splice.oracle.endings import check, finish
    from tests.grpc.proxy.splice.oracle.play import STEPS, Play
    from tests.grpc.proxy.splice.oracle.raw import HELLO, headers
    from tests.grpc.proxy.splice.oracle.reshape import SETTINGS, frame

    from sluicegate.broker import Close

_STEP = 6
_CUT = 61
"""Bytes of one read; a prime, so that cuts fall everywhere."""


def feed(raw: bytes) -> None:
    """One input: the first byte chooses what it is."""
    if len(raw) < 2:
        return
    if raw[0] % 3 == 0:
        _played(raw)
    else:
        _received(raw[1:], from_client=raw[0] % 3 == 1)


def _played(raw: bytes) -> None:
    play = Play(seed=raw[1])
    if raw[0] & 1:
        play.attach_all()
    for at in range(2, min(len(raw) - _STEP, 150 * _STEP), _STEP):
        a, b = int.from_bytes(raw[at + 1 : at + 3]), int.from_bytes(raw[at + 3 : at + 6])
        play.step(STEPS[raw[at] % len(STEPS)], a, b)
    finish(play)
    check(play)


def _received(raw: bytes, *, from_client: bool) -> None:
    session = gate.session()
    session.receive_client(HELLO + headers(1), START)
    session.receive_upstream(frame(SETTINGS), START)
    receive = session.receive_client if from_client else session.receive_upstream
    for at in range(0, len(raw), _CUT):
        commands = receive(raw[at : at + _CUT], START + at)
        if any(isinstance(command, Close) for command in commands):
            break
    session.closed(START + len(raw))
    assert session.held_bytes == 0


if __name__ == "__main__":
    atheris.Setup(sys.argv, feed)
    atheris.Fuzz()
