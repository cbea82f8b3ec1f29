"""The table of reasons: the worst trial of each arm first, and the rows behind each."""

from tests.reports.frames import at, trial

from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.jobs.reasons import reasons
from sluicegate_reports.model.finding import Finding
from sluicegate_reports.model.results import RunFacts, Table
from sluicegate_reports.model.runs import Run, Trial
from sluicegate_reports.model.verdict import Verdict


def table_of(*pairs: tuple[Trial, Finding]) -> Table:
    run = Run(RunFacts("r1", "", ""), tuple(each for each, _ in pairs))
    (section,) = reasons(run, [finding for _, finding in pairs], Measures())
    (table,) = section.tables
    return table


def test_the_worst_of_each_arm_comes_first_and_what_is_exact_is_left_out() -> None:
    off = Finding(Verdict.OFF, 9.0, 5.0, "%", "far too much")
    worse = Finding(Verdict.OFF, 20.0, 5.0, "%", "even more")
    within = Finding(Verdict.WITHIN, 3.0, 5.0, "%", "a little")
    table = table_of(
        (trial(phase="one", door="native"), within),
        (trial(phase="one"), off),
        (trial(phase="two"), worse),
        (trial(phase="three"), Finding(Verdict.EXACT, 0.0)),
        (trial("max_message_size", 9), Finding(Verdict.NOT_APPLICABLE, text="the matrix says why")),
    )
    assert table.columns == ("verdict", "policy", "system", "door", "phase", "figure", "why")
    assert [(row[0], row[3], *row[4:]) for row in table.rows] == [
        ("off", "proxy", "two", "20 %", "even more"),
        ("within bound", "native", "one", "3 %", "a little"),
        ("off", "proxy", "one", "9 %", "far too much"),
    ]


def test_a_reason_of_several_phases_is_one_row_and_names_what_tells_it_apart() -> None:
    lacks = Finding(Verdict.NOT_REACHED, text="nobody asked")
    subscribed = "max_subscription_dispatch_rate"
    table = table_of(
        *(
            (trial(subscribed, phase=phase, subscription=name, start=at(begin), end=at(begin + 2)), lacks)
            for begin, phase in ((0, "one"), (2, "two"))
            for name in ("a", "b")
        )
    )
    assert table.columns == ("verdict", "policy", "system", "door", "phase", "subscription", "figure", "why")
    assert [row[4:] for row in table.rows] == [
        ("one, two", "a", None, "nobody asked"),
        ("one, two", "b", None, "nobody asked"),
    ]
    assert table.origins[0].path == "decisions/run=r1/system=kafka/*.parquet"
    for part in ("door = 'proxy'", "operation IN ('dispatch')", "subscription = 'a'"):
        assert part in table.origins[0].where
    times = table.origins[0].where.split("time >= ")[1]
    assert f"{at(0):%H:%M:%S}" in times
    assert f"{at(4):%H:%M:%S}" in times


def test_where_no_gateway_decides_the_rows_are_what_clients_saw() -> None:
    table = table_of((trial(door="native"), Finding(Verdict.MISSING, text="nothing was admitted")))
    assert table.origins[0].path == "observations/run=r1/system=kafka/*.parquet"


def test_topics_that_differ_by_arm_alone_tell_nothing_apart() -> None:
    off = Finding(Verdict.OFF, 9.0, 5.0, "%", "off")
    arms = [trial(door=door, topic=f"orders-{door}") for door in ("proxy", "native")]
    assert "topic" not in table_of(*((each, off) for each in arms)).columns
    assert "topic" in table_of(*((each, off) for each in (*arms, trial(topic="others")))).columns
