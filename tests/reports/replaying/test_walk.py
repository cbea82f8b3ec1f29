"""The replay compared with the engine itself."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reports.replaying.door import START_US, TOPIC, Arrival, Door, candidate, replay, row, total, window

from sluicegate.model import Operation, OperationKind
from sluicegate_reports.replaying.candidate import CandidateError, Engine, read_candidate
from sluicegate_reports.replaying.marks import Mark


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
def test_replayed_traffic_is_decided_as_the_engine_decides_it(steps: list[Arrival], policies: str) -> None:
    came = list(arrivals(steps))
    with TemporaryDirectory() as folder:
        free = candidate(Path(folder), "max_message_size: 0")
        tried = candidate(Path(folder), policies + "\n")
    expected = Door(tried).play(came)
    outcomes = replay(tried, Door(free).play(came).rows)
    assert total(outcomes, "operations") == len(came)
    assert total(outcomes, "refused") == total(outcomes, "newly_refused") == len(expected.refused)
    assert total(outcomes, "delayed") == total(outcomes, "newly_delayed") == len(expected.delayed)
    assert total(outcomes, "delay_ns") == sum(late for late, _ in expected.delayed)
    for client in {arrival[2] for arrival in came}:
        of_client = [each for each in outcomes if each["principal"] == client]
        assert total(of_client, "refused") == sum(arrival[2] == client for arrival in expected.refused)


@settings(max_examples=120, deadline=None)
@given(steps=_ARRIVALS, policies=policies())
def test_a_log_of_the_engine_replayed_under_its_own_policies_changes_nothing(
    steps: list[Arrival], policies: str
) -> None:
    with TemporaryDirectory() as folder:
        tried = candidate(Path(folder), policies)
    recorded = Door(tried).play(list(arrivals(steps)))
    outcomes = replay(tried, recorded.rows)
    assert total(outcomes, "operations") == len(steps)
    assert total(outcomes, "refused") == total(outcomes, "recorded_refused") == len(recorded.refused)
    for name in ("newly_refused", "no_longer_refused", "no_longer_delayed"):
        assert total(outcomes, name) == 0, name


def test_refused_attachments_are_bounded_by_clients_that_leave_or_stay(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "max_producers_per_topic: 1")
    rows = [
        row(START_US + 0, "attach_producer", "anna", 0, 0, Mark.OTHER),
        row(START_US + 1, "attach_producer", "ben", 0, 0, Mark.OTHER),
        row(START_US + 2, "detach", "anna", 0, 0, Mark.LEFT, operations=0),
        row(START_US + 3, "attach_producer", "cleo", 0, 0, Mark.OTHER),
        row(START_US + 4, "attach_producer", "anna", 0, 0, Mark.REFUSED),
    ]
    outcomes = [each for each in replay(tried, rows) if each["policy"]]
    refused = {
        each["principal"]: (each["refused"], each["refused_low"], each["refused_high"]) for each in outcomes
    }
    # ben comes while anna is there; cleo has the place that anna left, if she did.
    assert refused == {"ben": (1, 1, 1), "cleo": (0, 0, 1), "anna": (1, 1, 1)}
    assert total(outcomes, "newly_refused") == 1


def test_a_batch_may_hold_a_message_that_is_too_large(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "max_message_size: 100")
    rows = [
        row(START_US, messages=1, nbytes=101),
        row(START_US + 1, messages=2, nbytes=150),
        row(START_US + 2, messages=2, nbytes=300),
        row(START_US + 3, messages=2, nbytes=100),
    ]
    (outcomes,) = (each for each in replay(tried, rows) if each["policy"])
    assert (outcomes["refused"], outcomes["refused_low"], outcomes["refused_high"]) == (2, 2, 3)
    assert (outcomes["current"], outcomes["limit"]) == (150, 100)


def test_a_window_is_bounded_by_a_burst_and_by_even_arrival(tmp_path: Path) -> None:
    tried = candidate(
        tmp_path, "max_publish_rate: 100\nburst_seconds: 0.5\non_limit: {max_publish_rate: reject}"
    )
    (outcomes,) = (each for each in replay(tried, [window(START_US, 70, 70, 7000)]) if each["policy"])
    # 50 are in the bucket, 10 come within the 100 ms: between 50 and 60 of 70 pass.
    assert (outcomes["refused_low"], outcomes["refused_high"]) == (10, 20)
    assert 10 <= outcomes["refused"] <= 20
    assert outcomes["principal"] is None


def test_the_delay_of_a_window_is_bounded(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "max_publish_rate: 100\nburst_seconds: 0.5")
    (outcomes,) = (each for each in replay(tried, [window(START_US, 70, 70, 7000)]) if each["policy"])
    assert (outcomes["delayed_low"], outcomes["delayed_high"]) == (10, 20)
    assert (outcomes["longest_delay_low_ns"], outcomes["longest_delay_high_ns"]) == (100_000_000, 200_000_000)
    assert 100_000_000 <= outcomes["longest_delay_ns"] <= 200_000_001


@settings(max_examples=60, deadline=None)
@given(
    windows=st.lists(st.lists(st.integers(0, 99_999), min_size=1, max_size=30), min_size=1, max_size=12),
    limit=st.integers(1, 200),
    waits=st.booleans(),
)
def test_the_bounds_of_windows_hold_wherever_operations_lie_in_them(
    windows: list[list[int]], limit: int, waits: bool
) -> None:
    came: list[Arrival] = []
    rows = []
    for number, offsets in enumerate(windows):
        start_us = START_US + number * 100_000
        # A client each, or they would wait for each other and not for the bucket.
        for at in sorted(offsets):
            came.append((start_us + at, "publish", f"c{len(came)}", 1, 100))
        rows.append(window(start_us, len(offsets), len(offsets), 100 * len(offsets)))
    on_limit = "delay" if waits else "reject"
    with TemporaryDirectory() as folder:
        tried = candidate(
            Path(folder),
            f"max_publish_rate: {limit}\nburst_seconds: 0.25\non_limit: {{max_publish_rate: {on_limit}}}",
        )
    seen = Door(tried).play(came)
    outcomes = [each for each in replay(tried, rows) if each["policy"]]
    assert total(outcomes, "refused_low") <= len(seen.refused) <= total(outcomes, "refused_high")
    assert total(outcomes, "delayed_low") <= len(seen.delayed) <= total(outcomes, "delayed_high")


def test_an_exempt_principal_is_not_refused(tmp_path: Path) -> None:
    tried = candidate(
        tmp_path,
        "max_publish_rate: 1\non_limit: {max_publish_rate: reject}",
        "  exempt: {principals: [anna]}\n",
    )
    rows = [row(START_US + at, client=client) for at in range(3) for client in ("anna", "ben")]
    outcomes = replay(tried, rows)
    assert {each["principal"]: each["refused"] for each in outcomes if each["policy"]} == {"ben": 2}


def test_operations_held_too_long_are_refused(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "max_publish_rate: 1\nburst_seconds: 1", "  idle_timeout: 1h\n")
    short = tmp_path / "candidate.yaml"
    short.write_text(short.read_text().replace("max_hold: 1h", "max_hold: 500ms"))
    rows = [row(START_US), row(START_US + 1)]
    assert total(replay(tried, rows), "delayed") == 1
    assert total(replay(read_candidate(short, {}), rows), "newly_refused") == 1


def test_a_change_of_the_file_is_tried(tmp_path: Path) -> None:
    candidate(tmp_path, "max_publish_rate: 100")
    rows = [row(START_US), row(START_US + 1)]
    file, change = tmp_path / "candidate.yaml", "broker max_publish_rate=1/s burst_seconds=1"
    assert total(replay(read_candidate(file, {}), rows), "delayed") == 0
    assert total(replay(read_candidate(file, {}, [change]), rows), "delayed") == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("max_publish_rate=1/s", "changes nothing: write LEVEL"),
        ("topic orders", "changes nothing: write LEVEL"),
        ("topic orders fast", "'fast' is not POLICY=VALUE"),
        ("broker max_publish_rat=1", "unknown policy 'max_publish_rat'"),
        ("broker max_publish_rate=often", "'often'"),
        ("topic 'orders max_publish_rate=1", "No closing quotation"),
    ],
)
def test_a_change_that_is_none_is_refused(tmp_path: Path, change: str, problem: str) -> None:
    candidate(tmp_path, "max_publish_rate: 100")
    with pytest.raises(CandidateError, match=problem):
        read_candidate(tmp_path / "candidate.yaml", {}, [change])


def test_another_system_is_not_replayed(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "max_publish_rate: 1")
    rows = [row(START_US, system="pulsar"), row(START_US + 1)]
    assert [each["operations"] for each in replay(tried, rows)] == [1]
    assert replay(tried, rows[:1]) == []


def test_observed_policies_are_applied_and_the_notes_say_so(tmp_path: Path) -> None:
    tried = candidate(
        tmp_path,
        "max_publish_rate: 1\non_limit: {max_publish_rate: reject}\nconnection_rate_limit: 5",
        "  observe_only: true\n",
    )
    assert total(replay(tried, [row(START_US), row(START_US + 1)]), "newly_refused") == 1
    assert "observe_only and mode of the file are set aside" in " ".join(tried.notes)
    assert tried.attachments


@pytest.mark.parametrize(
    "quota",
    [
        "publish_quota: 1",
        "publish_quota_bytes: 100",
        "principal_publish_quota: 1",
        "principal_publish_quota_bytes: 100",
        "ceiling: {publish_quota: 1}",
    ],
)
def test_a_quota_over_all_topics_decides_nothing_as_topics_are_replayed_apart(
    tmp_path: Path, quota: str
) -> None:
    policy = quota.removeprefix("ceiling: {").partition(":")[0]
    tried = candidate(tmp_path, f"{quota}\nmax_publish_rate: 2\non_limit: {{max_publish_rate: reject}}")
    outcomes = replay(tried, [row(START_US + at) for at in range(3)])
    assert {each["policy"]: each["refused"] for each in outcomes if each["policy"]} == {"max_publish_rate": 1}
    assert policy in tried.left_out


def test_engines_share_no_limit(tmp_path: Path) -> None:
    [entry] = candidate(tmp_path, "connection_rate_limit: 1").attaching
    now_ns = START_US * 1000
    engines = [Engine(entry, ()), Engine(entry, ())]
    asked = [
        engine.gate(TOPIC, "default", "anna", now_ns).decide(
            Operation(OperationKind.ATTACH_PRODUCER, TOPIC, "anna", "anna", "anna"), now_ns
        )
        for engine in (*engines, *engines)
    ]
    assert [decision is None for decision in asked] == [True, True, False, False]


def test_a_file_with_mistakes_is_refused_with_place_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("brokers:\n- {name: main, system: kafka, listen: {port: 1}}\nmax_publish: 3\n")
    with pytest.raises(CandidateError, match=r"(?s)wrong\.yaml:3:1.*`sluicegate check`"):
        read_candidate(path, {})
