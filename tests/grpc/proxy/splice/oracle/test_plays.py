"""A session between two HTTP/2 peers breaks nothing, for any calls and any fragmentation.

h2 on both sides raises at every breach of the protocol; see `endings` for what else must hold.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grpc.proxy.splice.oracle.endings import check, finish
from tests.grpc.proxy.splice.oracle.play import STEPS, Play

_NUMBER = st.integers(0, 2**17)
_STEP = st.tuples(st.sampled_from(STEPS), _NUMBER, _NUMBER)
_PROGRAM = st.lists(_STEP, max_size=40) | st.lists(_STEP, min_size=40, max_size=160)
_WINDOW = st.sampled_from([0, 1, 100, 65_535])


@settings(max_examples=150, deadline=None)
@given(
    program=_PROGRAM,
    seed=st.integers(0, 2**16),
    windows=st.tuples(_WINDOW, _WINDOW),
    table=st.sampled_from([0, 64, 4_096]),
    shrinks=st.booleans(),
    is_attached=st.booleans(),
)
def test_two_peers_exchange_the_same_messages_through_a_session(
    program: list[tuple[str, int, int]],
    seed: int,
    windows: tuple[int, int],
    table: int,
    shrinks: bool,
    is_attached: bool,
) -> None:
    play = Play(seed, windows, table, shrinks)
    if is_attached:
        play.attach_all()
    for name, a, b in program:
        play.step(name, a, b)
    finish(play)
    check(play)
