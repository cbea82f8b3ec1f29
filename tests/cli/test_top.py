"""`sluicegate top`: the frame; tests/gateway runs the command against a real gateway."""

from typing import Any

import pytest

from sluicegate.cli.top_frame import HELD, REASONS, TOPICS, amount, by_reason, frame, with_rates

USE = {"max_publish_rate": {"in_force": 200, "used_1s": 180, "level": "topic"}}


def topic(name: str, **more: Any) -> dict[str, Any]:
    totals = dict.fromkeys(("published_messages", "dispatched_messages", "refused", "delayed"), 0)
    return {"broker": "main", "topic": name, **totals, "producers": 1, "held": 0, "use": {}, **more}


def test_rates_are_of_the_time_between_two_looks_and_a_total_that_fell_began_anew() -> None:
    before = [topic("a", published_messages=100), topic("b", published_messages=50)]
    now = [topic("a", published_messages=300), topic("b", published_messages=10), topic("c")]
    rows = with_rates(TOPICS, now, before, 2.0)
    assert [row["published_messages_rate"] for row in rows] == [100.0, 0.0, 0.0]


@pytest.mark.parametrize("width", [40, 80, 132])
def test_a_frame_fits_its_terminal_and_shows_no_control_characters(width: int) -> None:
    rows = with_rates(TOPICS, [topic("\x1b[31m<b>" + "x" * 200), topic("orders.eu", use=USE)], [], 1.0)
    lines = frame(TOPICS, rows, "use", "", width, 20)
    assert max(map(len, lines)) <= width
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("topic")
    assert lines[1].startswith("orders.eu"), "by use, the largest first"
    assert "…" in lines[2]


def test_of_the_limits_the_one_that_is_used_most_is_shown() -> None:
    [row] = with_rates(TOPICS, [topic("orders.eu", use=USE)], [], 1.0)
    _, line = frame(TOPICS, [row], "use", "", 100, 20)
    assert "90%" in line
    assert line.endswith("200 publish_rate")


def test_rows_are_filtered_sorted_and_bounded() -> None:
    rows = with_rates(
        TOPICS, [topic(name, held=held) for name, held in (("b", 1), ("a", 5), ("ab", 3))], [], 1.0
    )
    names = [line.split()[0] for line in frame(TOPICS, rows, "held", "A", 80, 20)[1:]]
    assert names == ["a", "ab"]
    assert [line.split()[0] for line in frame(TOPICS, rows, "name", "", 80, 3)[1:]] == ["a", "ab"]
    assert frame(TOPICS, rows, "held", "zz", 80, 20)[1] == "nothing has 'zz' in its name"
    assert frame(HELD, [], "for s", "", 80, 20)[1] == "nothing"


def test_several_brokers_are_named() -> None:
    rows = with_rates(TOPICS, [topic("a"), {**topic("a"), "broker": "stage"}], [], 1.0)
    assert {line.split()[1] for line in frame(TOPICS, rows, "name", "", 80, 20)[1:]} == {"@main", "@stage"}


def test_reasons_add_up_over_topics_and_name_the_busiest() -> None:
    topics = [topic("a", by_policy={"max_publish_rate": 3}), topic("b", by_policy={"max_publish_rate": 9})]
    [row] = with_rates(REASONS, by_reason(topics), by_reason(topics[:1]), 1.0)
    assert (row["count"], row["topic"], row["count_rate"]) == (12, "b", 9.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.5, "0.5"), (5.25, "5.2"), (412.4, "412"), (9_999, "9999"), (12_345, "12k"), (4.1e7, "41M")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert amount(value) == text
