"""What a change would have held or refused in the last hour, from a real decision log."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sluicegate.config.load import load
from sluicegate.decisions import DecisionLog
from sluicegate.decisions.compaction import tidy
from sluicegate.decisions.lookback import Bounds, look_back
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason, TopicName
from sluicegate.runtime.edits import change_from
from sluicegate.runtime.plugins import CHOICE, load_plugins
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.policy_desk import PolicyDesk

FILE = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:1"]
    listen: {port: 19092}
    max_hold: 1s
    exempt: {principals: ["User:root"]}
state_dir: state
policies:
  namespaces: [{name: orders, max_publish_rate: 1000/s}]
"""
LIVE = {"main": {"orders.eu": {"producers": 12, "consumers": {"a": 1}}}}
SECOND_NS = 1_000_000_000
NOW_S = 1_700_003_600.0
"""Half an hour after the decisions."""
Look = Callable[..., dict[str, Any]]


class Gate:
    """The little that the log looks at."""

    version = 1

    def __init__(self, topic: str) -> None:
        self.topic = TopicName(topic, topic.partition(".")[0])

    def time_next_publish(self, report: Callable[[int], None], clock: Callable[[], int]) -> None:
        """There is nothing to time."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CHOICE, "kafka")
    monkeypatch.chdir(tmp_path)
    Path("gateway.yaml").write_text(FILE)
    return tmp_path


@pytest.fixture
def look(directory: Path) -> Iterator[Look]:
    """Asks what setting a field of orders.eu would have done."""
    plugins = load_plugins(())
    loaded = load("gateway.yaml", plugins.policy_models, plugins.broker_models, {})
    watch = PolicyWatch("gateway.yaml", loaded, plugins, {})
    desk = PolicyDesk(watch, lambda: LIVE)

    def ask(
        field: str, value: object, now_s: float = NOW_S, more: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        edits = [{"level": "topic", "name": "orders.eu", "field": field, "value": value}, *more]
        _, hindsight = desk.plan(change_from(edits).wanted())
        return hindsight.look(now_s)

    yield ask
    watch.close()


def write(
    rows: list[tuple[float, Operation]], detail: str, *, refused: str = "", compacted: bool = False
) -> None:
    """Write a log of operations, each with its second in the last half hour."""
    start_ns, wall_ns = 5 * SECOND_NS, int((NOW_S - 1800) * SECOND_NS)
    now_ns = start_ns
    log = DecisionLog(
        "state/decisions",
        "kafka",
        "main",
        detail,  # type: ignore[arg-type]
        wall_clock=lambda: wall_ns + now_ns - start_ns,
        monotonic=lambda: now_ns,
        compacting=False,
    )
    gates: dict[str, Gate] = {}
    for at_s, operation in rows:
        now_ns = start_ns + int(at_s * SECOND_NS)
        gate = gates.setdefault(operation.topic, Gate(operation.topic))
        if refused:
            reason = Reason(refused, Outcome.LIMIT_REACHED, "no", 2, 1, "topic")
            log.decided(gate, operation, Decision(Action.REJECT, (reason,)), now_ns)
        else:
            log.allowed(gate, operation, now_ns)
    assert log.close()
    if compacted:
        assert tidy(Path("state/decisions"), 0, 0, time.time_ns() / 1e9) == []


def publish(messages: int = 1, nbytes: int = 100, client: str = "web", **more: Any) -> Operation:
    values = {"principal": "User:ann", "messages": messages, "bytes": nbytes, **more}
    return Operation(OperationKind.PUBLISH, "orders.eu", client=f"{client}@10.0.0.7:5000", **values)


def figures(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["messages"], row["held"], row["refused"]


@pytest.mark.parametrize("compacted", [False, True])
def test_messages_above_a_new_rate_are_counted_by_client(look: Look, compacted: bool) -> None:
    batch = [(0.0, publish(10)), (0.001, publish(10, client="batch")), (0.002, publish(5))]
    write(batch, "full", compacted=compacted)
    found = look("max_publish_rate", "10/s")
    assert found["known"]
    assert (found["resolution_ms"], found["notes"], found["not_estimated"]) == (0, [], [])
    [row] = found["topics"]
    assert (row["broker"], row["topic"], row["operation"]) == ("main", "orders.eu", "publish")
    assert row["limits"] == {"max_publish_rate": "10/s"}
    # The first ten are the burst, the next ten wait for a second, and five more would wait too long.
    assert figures(row) == (25, 10, 5)
    assert row["share"] == 0.6
    assert [(each["client"], *figures(each)) for each in row["clients"]] == [
        ("batch", 10, 10, 0),
        ("web", 15, 0, 5),
    ]
    assert [(each["principal"], *figures(each)) for each in row["principals"]] == [("User:ann", 25, 10, 5)]


def test_windows_tell_how_much_and_not_who(look: Look) -> None:
    write([(second + 0.001 * each, publish()) for second in range(3) for each in range(40)], "summary")
    found = look("on_limit.max_publish_rate", "reject")
    assert (found["resolution_ms"], found["topics"]) == (100, []), "1000/s is not reached"
    found = look("max_publish_rate", "20/s")
    [row] = found["topics"]
    # In windows of 40 messages, 20 of the burst and 2 that come in meanwhile pass at once.
    assert row["messages"] == row["unnamed_messages"] == 120
    assert row["held"] + row["refused"] >= 3 * 18
    assert row["clients"] == []
    assert any("decisions.detail: full names them" in note for note in found["notes"])


def test_what_a_looser_limit_lets_through_is_no_refusal(look: Look) -> None:
    write([(0.0, publish(900)), (0.0, publish(900)), (0.0, publish(900))], "full")
    assert look("max_publish_rate", "2000/s")["topics"] == []
    assert len(look("max_publish_rate", "900/s")["topics"]) == 1


def test_other_topics_and_exempt_principals_do_not_count(look: Look) -> None:
    other = Operation(OperationKind.PUBLISH, "orders.us", client="a@b:1", messages=100, bytes=1)
    write([(0.0, other), (0.0, publish(100, principal="User:root")), (0.0, publish(1))], "full")
    assert look("max_publish_rate", "1/s")["topics"] == []


def test_what_another_policy_refused_is_no_use_of_a_rate(look: Look) -> None:
    write([(0.001 * each, publish()) for each in range(9)], "full", refused="max_message_size")
    assert look("max_publish_rate", "1/s")["topics"] == []


def test_what_the_rate_refused_already_counts(look: Look) -> None:
    write([(0.001 * each, publish()) for each in range(9)], "full", refused="max_publish_rate")
    [row] = look("max_publish_rate", "1/s")["topics"]
    assert figures(row) == (9, 1, 7)


def test_messages_above_a_new_size_are_refused(look: Look) -> None:
    write([(0.0, publish(1, 500)), (1.0, publish(1, 100)), (2.0, publish(10, 1_000))], "full")
    [row] = look("max_message_size", "200B")["topics"]
    assert (row["limits"], figures(row)) == ({"max_message_size": "200B"}, (12, 0, 1))


def test_each_subscription_has_its_own_rate(look: Look) -> None:
    def take(subscription: str) -> Operation:
        named: dict[str, Any] = {"client": "c@d:1", "subscription": subscription, "messages": 10, "bytes": 10}
        return Operation(OperationKind.DISPATCH, "orders.eu", **named)

    write([(0.0, take("a")), (0.0, take("b")), (0.1, take("b"))], "full")
    [row] = look("max_subscription_dispatch_rate", "10/s")["topics"]
    assert (row["operation"], figures(row)) == ("dispatch", (30, 10, 0))


def test_windows_tell_no_subscription(look: Look) -> None:
    taken = Operation(OperationKind.DISPATCH, "orders.eu", client="c@d:1", messages=10, bytes=10)
    write([(0.0, taken), (0.01, taken)], "summary")
    found = look("max_subscription_dispatch_rate", "10/s")
    assert found["topics"] == []
    assert "rates of subscriptions are not estimated from windows" in found["notes"]


def test_a_canary_is_estimated_for_those_in_it(look: Look) -> None:
    write([(0.001 * each, publish(5, client=name)) for each in range(9) for name in ("web", "batch")], "full")
    edits = [{"level": "topic", "name": "orders.eu", "field": "max_publish_rate", "value": "5/s"}]
    assert look("max_publish_rate", "5/s")["topics"][0]["messages"] == 90
    [row] = look("mode.max_publish_rate", "canary clients web", more=edits)["topics"]
    assert [each["client"] for each in row["clients"]] == ["web"]
    assert look("mode.max_publish_rate", "observe", more=edits)["topics"] == []


def test_an_option_that_makes_a_limit_stricter_is_replayed(look: Look) -> None:
    write([(0.0, publish(900)), (0.0, publish(900))], "full")
    assert look("on_limit.max_publish_rate", "reject")["topics"][0]["refused"] == 900


def test_counts_are_those_of_now(look: Look) -> None:
    found = look("max_producers_per_topic", 10)
    assert found["counts"] == [
        {
            "broker": "main",
            "topic": "orders.eu",
            "field": "max_producers_per_topic",
            "count": 12,
            "limit": 10,
            "over": 2,
        }
    ]
    assert look("max_producers_per_topic", 20)["counts"] == []


def test_what_is_not_estimated_is_named(look: Look) -> None:
    assert look("max_consumers_per_subscription", 1)["not_estimated"] == ["max_consumers_per_subscription"]


def test_an_older_hour_does_not_count(look: Look) -> None:
    write([(0.0, publish()), (0.0, publish())], "full")
    assert len(look("max_publish_rate", "1/s")["topics"]) == 1
    assert look("max_publish_rate", "1/s", NOW_S + 3_600)["topics"] == []


def test_without_a_log_nobody_knows(look: Look) -> None:
    found = look("max_publish_rate", "1/s")
    assert (found["known"], found["topics"]) == (False, [])
    assert found["reason"] == "there is no decision log yet in state/decisions"
    assert "ask again" in found["remedy"]


def test_a_log_that_is_off_is_told_with_its_remedy(directory: Path) -> None:
    Path("gateway.yaml").write_text(FILE + "decisions: {enabled: false}\n")
    plugins = load_plugins(())
    loaded = load("gateway.yaml", plugins.policy_models, plugins.broker_models, {})
    watch = PolicyWatch("gateway.yaml", loaded, plugins, {})
    edits = [{"level": "broker", "field": "max_publish_rate", "value": "1/s"}]
    _, hindsight = PolicyDesk(watch).plan(change_from(edits).wanted())
    found = hindsight.look(NOW_S)
    watch.close()
    assert (found["known"], found["reason"]) == (False, "the decision log is off")
    assert "decisions.enabled" in found["remedy"]


def test_reading_is_bounded_and_says_so(look: Look) -> None:
    write([(float(each), publish()) for each in range(50)], "full", compacted=True)
    directory, since_s = Path("state/decisions"), NOW_S - 3_600

    def read(**bounds: Any) -> tuple[int, tuple[str, ...]]:
        found = look_back(directory, since_s, lambda broker, topic: True, Bounds(**bounds))
        return len(found.table), found.notes

    assert read() == (50, ())
    assert read(rows=7) == (7, ("only the last 7 rows of the decision log were replayed",))
    assert read(bytes=1)[0] == 0
    assert "were read" in read(bytes=1)[1][0]
    assert "took longer than 0 s" in read(seconds=0)[1][0]
    newest = look_back(directory, since_s, lambda broker, topic: True, Bounds(rows=1)).table
    assert newest["time"][0].as_py() == int((NOW_S - 1800 + 49) * 1e6)


def test_a_file_that_cannot_be_read_is_named_and_the_others_count(look: Look) -> None:
    write([(0.0, publish()), (0.0, publish())], "full", compacted=True)
    [file] = Path("state/decisions").rglob("*.parquet")
    file.with_name("part-broken.parquet").write_text("nothing of the kind")
    found = look("max_publish_rate", "1/s")
    assert len(found["topics"]) == 1
    assert any("cannot be read" in note for note in found["notes"])
