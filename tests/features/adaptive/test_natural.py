"""Natural rates: what is learned, and when nothing is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.features.adaptive.natural import ALPHA_DOWN, ALPHA_UP, NaturalRate, follow

S = 1_000_000_000


def learned(*rates: int) -> NaturalRate:
    """What is learned of these rates, a second each."""
    natural, total = NaturalRate(), 0
    natural.sample(0, 0, S, learn=True)
    for second, rate in enumerate(rates, 2):
        total += rate
        natural.sample(total, 10 * total, second * S, learn=True)
    return natural


@pytest.mark.seed("S5-029", "S5-080")
def test_rises_fast_and_falls_slowly() -> None:
    assert (ALPHA_UP, ALPHA_DOWN) == (0.30, 0.05)
    assert learned(1000).messages_per_s == 1000
    assert learned(1000, 2000).messages_per_s == pytest.approx(1300)
    assert learned(1000, 0).messages_per_s == pytest.approx(950)
    assert learned(1000, 2000, 1000).messages_per_s == pytest.approx(0.95 * 1300 + 50)
    assert learned(1000, 2000).bytes_per_s == pytest.approx(13_000)


@pytest.mark.seed("S5-029", "S5-033", "S5-082")
def test_the_first_look_only_stores_the_counters() -> None:
    natural = NaturalRate()
    natural.sample(1_000_000, 1_000_000, S, learn=True)
    assert not natural.known
    natural.sample(1_000_050, 1_000_500, 2 * S, learn=True)
    assert (natural.messages_per_s, natural.bytes_per_s) == (50, 500)


@pytest.mark.seed("S5-029")
def test_a_throttled_rate_is_never_learned_and_what_came_then_does_not_count_later() -> None:
    natural = learned(1000)
    natural.sample(1100, 11_000, 3 * S, learn=False)
    natural.sample(1200, 12_000, 4 * S, learn=False)
    assert natural.messages_per_s == 1000
    natural.sample(2200, 22_000, 5 * S, learn=True)
    assert natural.messages_per_s == 1000


@pytest.mark.seed("S5-029")
def test_counters_that_fall_back_and_clocks_that_stand_still_are_no_rates() -> None:
    natural = learned(1000)
    natural.sample(5, 5, 3 * S, learn=True)
    assert natural.messages_per_s == pytest.approx(950)
    natural.sample(999, 999, 3 * S, learn=True)
    assert natural.messages_per_s == pytest.approx(950)


@pytest.mark.seed("S5-033")
def test_an_idle_topic_has_no_natural_rate() -> None:
    natural = learned(10, *[0] * 200)
    assert not natural.known
    assert (natural.messages_per_s, natural.bytes_per_s) == (0, 0)


@given(st.floats(0.001, 1e12), st.floats(0, 1e12))
@pytest.mark.seed("S5-029")
def test_an_average_stays_between_old_and_new(old: float, new: float) -> None:
    assert min(old, new) * (1 - 1e-9) <= follow(old, new) <= max(old, new) * (1 + 1e-9)
