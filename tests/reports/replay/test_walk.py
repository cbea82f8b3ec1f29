"""The walk against the engine itself, asked by a door of its own."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reports.replay.door import START_US, Arrival, Door, candidate, replay, total


@pytest.fixture(autouse=True)
def only_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")


@st.composite
def policies(draw: st.DrawFn) -> str:
    """Policies that the load below meets now and then."""
    lines = []
    for name, most in (("max_publish_rate", 40), ("max_dispatch_rate", 40)):
        lines.append(f"{name}: {draw(st.integers(0, most))}")
        lines.append(f"{name}_bytes: {draw(st.sampled_from([0, 500, 5000]))}")
    lines.append(f"max_message_size: {draw(st.sampled_from([0, 150, 300]))}")
    lines.append(f"burst_seconds: {draw(st.sampled_from(['0.25', '1', '2']))}")
    on_limit = draw(st.sampled_from(["delay", "reject", "drop"]))
    lines.append(f"on_limit: {{max_publish_rate: {on_limit}, max_publish_rate_bytes: {on_limit}}}")
    return "\n".join(lines)


_ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 80_000),
        st.sampled_from(["publish", "publish", "dispatch"]),
        st.sampled_from(["anna", "ben", "cleo"]),
        st.integers(1, 5),
        st.integers(0, 1000),
    ),
    min_size=1,
    max_size=60,
)


def arrivals(steps: list[Arrival]) -> Iterator[Arrival]:
    """In order of time; a client only publishes or only consumes."""
    now_us = START_US
    for step_us, kind, client, messages, nbytes in steps:
        now_us += step_us
        yield now_us, kind, f"{client}-{kind}", messages, nbytes


@settings(max_examples=120, deadline=None)
@given(steps=_ARRIVALS, policies=policies())
def test_what_passed_without_policies_is_decided_as_the_engine_decides_it(
    steps: list[Arrival], policies: str
) -> None:
    came = list(arrivals(steps))
    with TemporaryDirectory() as folder:
        free = candidate(Path(folder), "max_message_size: 0")
        tried = candidate(Path(folder), policies + "\n")
    expected = Door(tried).play(came)
    found = replay(tried, Door(free).play(came).rows)
    assert total(found, "operations") == len(came)
    assert total(found, "refused") == total(found, "newly_refused") == len(expected.refused)
    assert total(found, "delayed") == total(found, "newly_delayed") == len(expected.delayed)
    assert total(found, "delay_ns") == sum(late for late, _ in expected.delayed)
    for client in {arrival[2] for arrival in came}:
        of_client = [each for each in found if each["principal"] == client]
        assert total(of_client, "refused") == sum(arrival[2] == client for arrival in expected.refused)


@settings(max_examples=120, deadline=None)
@given(steps=_ARRIVALS, policies=policies())
def test_a_log_of_the_engine_replayed_under_its_own_policies_changes_nothing(
    steps: list[Arrival], policies: str
) -> None:
    with TemporaryDirectory() as folder:
        tried = candidate(Path(folder), policies)
    recorded = Door(tried).play(list(arrivals(steps)))
    found = replay(tried, recorded.rows)
    assert total(found, "operations") == len(steps)
    assert total(found, "refused") == total(found, "recorded_refused") == len(recorded.refused)
    for name in ("newly_refused", "no_longer_refused", "no_longer_delayed"):
        assert total(found, name) == 0, name
