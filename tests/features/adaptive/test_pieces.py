"""Work for the relay's thread comes in pieces that it need not wait for."""

from tests.features.adaptive.lab import Lab

TOPICS = 200


def test_what_the_relays_thread_is_asked_to_do_comes_in_small_pieces() -> None:
    lab = Lab(TOPICS)
    lab.learn()
    for name in lab.gates:
        lab.press(0.95, name)
    before = lab.context.applied
    lab.cycle()
    assert lab.context.applied - before == TOPICS / 100
