"""What was on its way between a gate and its clients, on a few rows."""

from tests.reports import frames
from tests.reports.frames import flow, seen, trial

from sluicegate_reports.transforms import lag, lanes
from sluicegate_reports.transforms.slots import Slots

S = 1_000_000


def test_messages_in_transit_at_the_end_of_a_phase_arrive_in_the_next() -> None:
    phases = [
        trial("max_dispatch_rate", end=frames.at(4)),
        trial("max_dispatch_rate", start=frames.at(4), end=frames.at(8), phase="next"),
        trial("max_dispatch_rate", start=frames.at(9), end=frames.at(10), phase="later"),
    ]
    rows = [flow(3.5, 12), seen(3.6, 5), flow(1, 3, lane=1), seen(0.1, 10, lane=1), flow(0, 1, lane=2)]
    sums: dict[int, dict[str, Slots]] = {}
    for (number, source), each in frames.slots(rows, S, 4 * S).items():
        sums.setdefault(number, {})[source] = each
    of = lanes.lanes(phases)
    carried = lag.carried([(lane, sums[lane.number]) for lane in of])
    assert carried == {1: 7}


def test_answers_after_the_end_are_in_transit() -> None:
    answers = [(9.9, 0.1), (10.1, 0.2), (10.2, 0.1), (10.0, 0.01)]
    rows = [{"at": at_s, "latency_ns": int(lasted_s * 1e9)} for at_s, lasted_s in answers]
    (topic,) = frames.topics(seen=rows)
    assert lag.unanswered(topic, lanes.lanes([trial()])) == {0: 2}
