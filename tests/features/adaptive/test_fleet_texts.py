"""What workers of a fleet tell each other, as text and back."""

import json
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.features.adaptive.fleet_ear import FleetEar
from sluicegate.features.adaptive.fleet_json import HEAD_BYTES, MOST_BYTES, MOST_PER_S
from sluicegate.features.adaptive.fleet_rates import ROW_BYTES as REPORT_ROW_BYTES
from sluicegate.features.adaptive.fleet_rates import FleetRates, Passed, WorkerReport
from sluicegate.features.adaptive.standing import ROW_BYTES, FleetStanding, Standing

rates = st.integers(0, MOST_PER_S).map(lambda millis: round(millis / 1000, 3))
targets = st.integers(0, 10**12)
names = st.text(max_size=30)
shares = st.integers(0, 10_000).map(lambda parts: parts / 10_000)
states = st.sampled_from([(False, False), (True, False), (False, True)])
standings = st.builds(
    lambda natural, target, state, backlog: Standing(
        natural[0], natural[1], target[0], target[1], state[0], state[1], backlog
    ),
    st.tuples(rates, rates),
    st.tuples(targets, targets),
    states,
    shares,
)
S = 1_000_000_000


@given(shares, st.booleans(), st.booleans(), st.dictionaries(names, standings, max_size=20))
def test_how_a_fleet_stands_is_read_as_it_was_told(
    memory: float, observe_only: bool, is_cut: bool, topics: dict[str, Standing]
) -> None:
    standing = FleetStanding(memory, observe_only, is_cut, topics)
    text = standing.text()
    assert FleetStanding.read(text) == standing
    assert text.isascii()


@given(
    shares, st.booleans(), st.dictionaries(names, st.builds(Passed, rates, rates, st.booleans()), max_size=20)
)
def test_what_a_worker_reports_is_read_as_it_was_told(
    memory: float, is_first: bool, topics: dict[str, Passed]
) -> None:
    report = WorkerReport(7, 1.5, memory, is_first, topics)
    assert WorkerReport.read(report.text()) == report


@given(
    st.dictionaries(names, st.builds(Passed, rates, rates, st.booleans()), max_size=20),
    st.dictionaries(names, standings, max_size=20),
)
def test_no_topic_takes_more_room_than_is_reckoned(
    passed: dict[str, Passed], topics: dict[str, Standing]
) -> None:
    for text, told, row_bytes in (
        (WorkerReport(MOST_PER_S, 1e5, 1.0, False, passed).text(), passed, REPORT_ROW_BYTES),
        (FleetStanding(1.0, False, False, topics).text(), topics, ROW_BYTES),
    ):
        assert len(text) <= HEAD_BYTES + sum(len(json.dumps(name)) + row_bytes for name in told)


def test_of_too_many_topics_a_worker_reports_the_busiest() -> None:
    topics = {f"\x00{number}": Passed(number, number / 7) for number in range(10_000)}
    report = WorkerReport(MOST_PER_S, 1e5, 1.0, False, topics)
    text = report.text()
    told = WorkerReport.read(text).topics
    assert 0.5 * MOST_BYTES < len(text) <= MOST_BYTES
    assert told.keys() == set(list(topics)[-len(told) :])


@given(st.text() | st.from_regex(r'\{"version":1,"topics":\{"t":\[.{0,20}\]\}\}', fullmatch=True))
@pytest.mark.parametrize("read", [FleetStanding.read, WorkerReport.read])
def test_other_texts_are_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)


@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity", "1e300", "true", "null", '"1"', "[]"])
def test_a_rate_that_is_none_is_refused(value: str) -> None:
    text = f'{{"version":1,"memory":0,"serial":0,"interval":1,"topics":{{"t":[{value},0,1]}}}}'
    with pytest.raises(ValueError, match="expected a number"):
        WorkerReport.read(text)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.builds(Passed, rates, rates)), max_size=4))
def test_a_fleet_passes_what_its_workers_pass(reported: list[dict[str, Passed]]) -> None:
    reports = [WorkerReport(0, 1.0, 0.1 * place, False, topics) for place, topics in enumerate(reported)]
    fleet = FleetRates.of(reports)
    for topic in "abc":
        parts = [topics[topic].messages_per_s for topics in reported if topic in topics]
        assert fleet.topics.get(topic, Passed()).messages_per_s == pytest.approx(sum(parts))
    assert fleet.memory == max((report.memory for report in reports), default=0.0)


def test_rates_that_are_not_told_anew_end_and_memory_does_not() -> None:
    ear = FleetEar(logging.getLogger("sluicegate.test"))
    own = WorkerReport(0, 1.0, 0.2, False, {"t": Passed(5, 50)})
    other = WorkerReport(3, 2.0, 0.9, False, {"t": Passed(7, 70)}).text()
    heard = [ear.hear({"other": other}, own, at_s * S).topics["t"].messages_per_s for at_s in (1, 2, 3, 4)]
    assert heard == [12, 12, 12, 5]
    assert ear.hear({"other": other}, own, 5 * S).memory == 0.9
    again = WorkerReport(4, 2.0, 0.9, False, {"t": Passed(7, 70)}).text()
    assert ear.hear({"other": again}, own, 6 * S).topics["t"].messages_per_s == 12
