"""How a plan is played, with clients that need no broker.

What is tested is when things happen, by a clock that waits for nobody.
"""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.reports.runner.fakes import Behaviour, Driver
from tests.reports.runner.test_plan import plan_of
from tests.reports.runner.virtual import VirtualLoop

from sluicegate_reports.model.observations import Event
from sluicegate_reports.runner import playing, watching
from sluicegate_reports.runner.payload import Stamp
from sluicegate_reports.runner.playing import Clock, play
from sluicegate_reports.runner.watching import Watch

PHASES = [{"name": "one", "duration": 300}, {"name": "two", "duration": 300}]
READER = {"name": "reader", "topic": "orders"}
ATTACHING = ("attach_refused", "attached", "detached")


class Played(list[dict[str, Any]]):
    """Rows of observations, in the order of time."""

    ended_s = 0.0
    """How long all of it took."""

    def of(self, event: str, **columns: Any) -> list[dict[str, Any]]:
        wanted = {"event": event, **columns}
        return [row for row in self if all(row[name] == value for name, value in wanted.items())]


def written(directory: Path) -> list[dict[str, Any]]:
    return [row for file in directory.rglob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]


def played(directory: Path, behaviour: Behaviour, asks_delays: bool = False, **scenario: Any) -> Played:
    made = plan_of(**{"phases": PHASES, "drain": 100, **scenario})
    plan = replace(made, directory=str(directory), asks_delays=asks_delays)
    loop = VirtualLoop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(playing, "time", loop)
        patch.setattr(watching, "time", loop)
        with Watch(plan) as watch:
            loop.play(play(plan, Driver(plan, behaviour), watch, Clock()))
    rows = written(directory)
    done = ("consumer", "acknowledged")
    kinds = ("consumed" if (row["role"], row["event"]) == done else row["event"] for row in rows)
    assert Counter(kinds) == watch.counts
    played = Played(sorted(rows, key=lambda row: row["time"]))
    played.ended_s = loop.time()
    return played


def source(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "source", "topic": "orders", "rate": 100, **more}]


def test_each_message_is_sent_once_acknowledged_and_delivered(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(), producers=source(), consumers=[READER])
    sent = rows.of("sent")
    assert 50 <= len(sent) <= 60
    numbers = list(range(len(sent)))
    for event in ("sent", "acknowledged", "received"):
        assert [row["sequence"] for row in rows.of(event)] == numbers
    assert {row["producer"] for row in rows.of("received")} == {"source"}
    assert {row["subscription"] for row in rows.of("received")} == {"readers"}
    assert all(row["latency_ns"] >= 0 for row in rows.of("acknowledged"))
    phases = [row["scenario"] for row in sent]
    assert phases == sorted(phases)
    assert set(phases) == {"one", "two"}
    assert len(rows.of("attached")) == 2


def test_acknowledgements_are_recorded_before_they_are_sent_and_as_late_as_configured(
    tmp_path: Path,
) -> None:
    behaviour = Behaviour(acknowledged=0)
    reader = {**READER, "acknowledge_after": 100}
    rows = played(tmp_path, behaviour, producers=source(), consumers=[reader])
    told_of = rows.of("acknowledged", role="consumer")
    assert len(told_of) == behaviour.acknowledged
    assert len(told_of) > 40
    received = {row["sequence"]: row["time"] for row in rows.of("received")}
    waits = [row["time"] - received[row["sequence"]] for row in told_of]
    assert min(waits) >= timedelta(milliseconds=95)
    assert {row["client"] for row in told_of} == {"reader"}


@pytest.mark.parametrize(("read", "least_s", "most_s"), [("other", 1.5, 2.5), ("orders", 5.5, 6.5)])
def test_the_end_waits_for_what_a_consumer_lacks_and_not_for_what_nobody_reads(
    tmp_path: Path, read: str, least_s: float, most_s: float
) -> None:
    topics = [{"name": "orders"}, {"name": "other"}]
    consumers = [{**READER, "topic": read}]
    rows = played(tmp_path, Behaviour(lose=True), topics=topics, producers=source(), consumers=consumers)
    assert rows.of("acknowledged")
    assert least_s < rows.ended_s < most_s


def test_attaching_and_leaving_clients_record_how_long_they_tried(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(refuse_attach=1), producers=source(retry=50, stop=200))
    assert [row["event"] for row in rows if row["event"] in ATTACHING] == list(ATTACHING)
    assert all(row["latency_ns"] >= 0 for row in rows if row["event"] in ATTACHING)


def test_a_refused_client_tries_again_if_configured(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(refuse_attach=2), producers=source(retry=50))
    assert [(row["code"], row["text"]) for row in rows.of("attach_refused")] == [("FULL", "no room")] * 2
    assert len(rows.of("attached")) == 1
    assert rows.of("sent")


def test_a_client_without_an_answer_keeps_trying_and_counts_as_not_refused(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(fail_attach=5), producers=source(), consumers=[READER])
    assert not rows.of("attach_refused")
    assert len(rows.of("attached")) == 2
    assert rows.of("received")


def test_a_client_that_never_gets_an_answer_records_its_last_error_at_the_end(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(fail_attach=10_000), producers=source(), consumers=[READER])
    assert [(row["event"], row["code"], row["text"]) for row in rows] == [
        ("attach_refused", "NoBroker", "not reachable")
    ] * 2


def test_a_client_records_the_time_since_its_first_attempt_without_an_answer(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(fail_attach=1), producers=source())
    assert [row["latency_ns"] >= 8_000_000_000 for row in rows.of("attached")] == [True]


def test_a_client_that_starts_after_the_end_records_nothing(tmp_path: Path) -> None:
    late = {"start": "5s"}
    assert not played(tmp_path, Behaviour(), producers=source(**late), consumers=[{**READER, **late}])


def test_a_refused_client_does_not_retry_after_its_stop(tmp_path: Path) -> None:
    stay = {"stop": 200, "retry": 150}
    rows = played(tmp_path, Behaviour(refuse_attach=9), producers=source(**stay), consumers=[])
    assert [row["event"] for row in rows] == ["attach_refused"] * 2


def test_a_refused_client_that_does_not_retry_sends_nothing(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(refuse_attach=1), producers=source())
    assert [row["event"] for row in rows] == ["attach_refused"]


@pytest.mark.parametrize(
    ("code", "first", "more"), [("AWAY", "attach_refused", False), ("TOO_LARGE", "attached", True)]
)
def test_a_refused_first_message_may_count_as_a_refused_producer(
    code: str, first: str, more: bool, tmp_path: Path
) -> None:
    behaviour = Behaviour(by_publishing=True, refuse=code)
    rows = played(tmp_path, behaviour, producers=source())
    assert len(rows.of(first)) == 1
    assert {row["code"] for row in rows.of("refused")} == {code}
    assert (len(rows.of("sent")) > 1) is more


def test_unanswered_messages_fail_and_pending_ones_stay_bounded(tmp_path: Path) -> None:
    behaviour = Behaviour(hang=True)
    rows = played(tmp_path, behaviour, producers=source(in_flight=7))
    assert len(rows.of("sent")) == len(rows.of("failed", code="NoAnswer")) == behaviour.most_waiting == 7
    assert rows.of("acknowledged") == []
    # 0.6 s of phases and 0.1 s of drain: the first waited all that time.
    assert rows.of("failed")[0]["latency_ns"] >= 600_000_000


def test_as_fast_as_answers_come_is_faster_than_any_rate(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(), producers=source(rate=0))
    assert len(rows.of("sent")) > 200
    assert len(rows.of("acknowledged")) == len(rows.of("sent"))


def test_clients_attach_and_leave_on_schedule(tmp_path: Path) -> None:
    producers = [*source(stop=200), {"name": "late", "topic": "orders", "rate": 100, "start": 350}]
    rows = played(tmp_path, Behaviour(), producers=producers, consumers=[{**READER, "start": 350}])
    left = rows.of("detached", client="source")[0]["time"]
    assert max(row["time"] for row in rows.of("sent", client="source")) < left
    assert left < rows.of("attached", client="late")[0]["time"]
    assert {row["scenario"] for row in rows.of("sent", client="late")} == {"two"}
    assert rows.of("attached", client="reader")[0]["scenario"] == "two"
    assert {row["producer"] for row in rows.of("received")} == {"late"}


def test_a_silent_phase_has_no_messages(tmp_path: Path) -> None:
    silent = [{"producer": "source", "silent": True}]
    phases = [{**PHASES[0], "rates": silent}, PHASES[1]]
    rows = played(tmp_path, Behaviour(), producers=source(), phases=phases)
    assert {row["scenario"] for row in rows.of("sent")} == {"two"}
    assert rows.of("attached")[0]["scenario"] == "one"


def test_an_unanswered_attachment_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "_ATTACH_S", 0.05)
    rows = played(tmp_path, Behaviour(hang_attach=True), producers=source(), consumers=[READER])
    assert [(row["event"], row["code"]) for row in rows] == [("attach_refused", "NoAnswer")] * 2
    assert {row["client"] for row in rows} == {"source", "reader"}


def test_an_unanswered_first_message_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "_ATTACH_S", 0.05)
    rows = played(tmp_path, Behaviour(hang=True, by_publishing=True), producers=source())
    assert sorted(row["event"] for row in rows) == ["attach_refused", "failed", "sent"]


def test_errors_are_recorded_as_the_client_library_raises_them(tmp_path: Path) -> None:
    rows = played(tmp_path, Behaviour(bug="no such thing"), producers=source())
    assert {(row["code"], row["text"]) for row in rows.of("failed")} == {("LookupError", "no such thing")}
    assert len(rows.of("failed")) == len(rows.of("sent")) > 1


@pytest.mark.parametrize(("can", "told_ms"), [(True, {250}), (False, {None})])
def test_a_delay_is_recorded_only_where_clients_can_request_one(
    can: bool, told_ms: set[int | None], tmp_path: Path
) -> None:
    rows = played(tmp_path, Behaviour(), can, producers=source(delay=250))
    assert {row["delay_ms"] for row in rows.of("sent")} == told_ms


class LosesItsCore:
    """A clock whose reader stands still for 6 ms before each look at it."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        self.now_ns += 6_000_000
        return self.now_ns

    def time_ns(self) -> int:
        return self.monotonic_ns()


def test_a_process_that_loses_its_core_makes_no_message_look_sent_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the clock of a gate that decided meanwhile would seem to be another one."""
    plan = replace(plan_of(producers=source(), phases=PHASES), directory=str(tmp_path))
    monkeypatch.setattr(watching, "time", LosesItsCore())
    with Watch(plan) as watch:
        watch.answered(plan.producers[0], Stamp(0, 0, 0, 0), None, began_ns=0)
        watch.attached(plan.producers[0], Event.ATTACHED, None, began_ns=0)
    for row in written(tmp_path):
        assert row["time"].timestamp() * 1e9 - row["latency_ns"] <= 0
