"""What is replayed over all topics: the rate of attachments, and delays; and the notes about it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.reports.replaying.door import START_US, candidate, total

from sluicegate_reports.model.results import Table, of_log, to_json
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.page import page
from sluicegate_reports.render.page.budget import MAX_BYTES
from sluicegate_reports.replaying.attaching import attached
from sluicegate_reports.replaying.candidate import Candidate
from sluicegate_reports.replaying.delays import Delays
from sluicegate_reports.replaying.scope import BOUNDED, EXACT, IN_PART, NOT_REPLAYED, scope

S = 1_000_000


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")


def came(at_us: int, client: str, action: str = "allow", **changes: Any) -> dict[str, Any]:
    """A row of `attempts`."""
    return {
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "namespace": "default",
        "topic": "orders",
        "principal": f"User:{client}",
        "operation": "attach_producer",
        "client": client,
        "action": action,
        "at_us": START_US + at_us,
        "decisions": 1,
        "window": 0,
        **changes,
    }


def replay(tried: Candidate, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    batches = pa.Table.from_pylist(list(rows)).to_batches(max_chunksize=2)
    return [row for batch in attached(tried, iter(batches)) for row in batch.to_pylist()]


def outcomes(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int, float]]:
    """By principal: newly delayed, newly refused, and longest in ms."""
    return {
        row["principal"]: (row["newly_delayed"], row["newly_refused"], row["longest_delay_ns"] / 1e6)
        for row in rows
        if row["policy"]
    }


def test_attachments_above_the_rate_wait_over_all_topics(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "connection_rate_limit: 2")
    rows = [came(n, f"c{n}", topic=f"t{n}") for n in range(4)]  # a full bucket holds two
    replayed = replay(tried, rows)
    by_client = outcomes(replayed)
    assert {who: each[:2] for who, each in by_client.items()} == {"User:c2": (1, 0), "User:c3": (1, 0)}
    assert [each[2] for each in by_client.values()] == [pytest.approx(500, abs=1), pytest.approx(1000, abs=1)]
    assert total(replayed, "operations") == 4


def test_attachments_that_would_wait_too_long_are_refused(tmp_path: Path) -> None:
    tried = candidate(tmp_path, "connection_rate_limit: 2")
    short = tmp_path / "candidate.yaml"
    short.write_text(short.read_text().replace("max_hold: 1h", "max_hold: 600ms"))
    from sluicegate_reports.replaying.candidate import read_candidate

    replayed = replay(read_candidate(short, {}), [came(n, f"c{n}") for n in range(4)])
    assert {who: delayed[:2] for who, delayed in outcomes(replayed).items()} == {
        "User:c2": (1, 0),
        "User:c3": (0, 1),
    }
    assert not replay(candidate(tmp_path, "connection_rate_limit: 100"), rows=[came(0, "c")])[0]["policy"]
    assert tried.attachments


def test_an_attachment_that_was_held_is_replayed_once(tmp_path: Path) -> None:
    rows = [came(0, "a"), came(1, "b", "delay"), came(S, "b"), came(S + 1, "c")]
    replayed = replay(candidate(tmp_path, "connection_rate_limit: 100"), rows)
    assert (total(replayed, "operations"), total(replayed, "no_longer_delayed")) == (3, 1)
    held = replay(candidate(tmp_path, "connection_rate_limit: 1"), rows)
    assert outcomes(held)["User:b"][0] == 0  # as then
    assert total(held, "delayed") == 2


def test_attachments_of_a_window_are_bounded(tmp_path: Path) -> None:
    rows = [{**came(0, "c"), "decisions": 5, "window": 100, "client": None, "principal": None}]
    (outcome,) = [
        row for row in replay(candidate(tmp_path, "connection_rate_limit: 2"), rows) if row["policy"]
    ]
    assert outcome["delayed"] == 3
    assert (outcome["delayed_low"], outcome["delayed_high"]) == (0, 5)


def totals(**changes: Any) -> dict[str, Any]:
    return {**came(0, "anna"), "operation": "publish", "messages": 7, "policy": None, **changes}


def test_a_fixed_delay_delays_every_message_by_exactly_that(tmp_path: Path) -> None:
    delays = Delays(candidate(tmp_path, "fixed_delivery_delay: 1500ms"))
    delayed = list(delays.later([totals(), totals(operation="dispatch"), totals(system="pulsar")]))
    assert [(each.key[4], each.key[5], each.messages, each.delay_ms) for each in delayed] == [
        ("orders", "User:anna", 7, 1500)
    ]
    assert list(Delays(candidate(tmp_path, "")).later([totals()])) == []


@pytest.mark.parametrize(
    ("policies", "still", "others"),
    [
        ("max_delivery_delay: 3s", 4, "not known: the log does not tell what they asked for"),
        ("max_delivery_delay: 5s", 4, "none would be refused"),
        ("max_delivery_delay: 8s", 1, "none would be refused"),
        ("max_delivery_delay: 3s\nfixed_delivery_delay: 1s", 0, "none would be refused"),
    ],
)
def test_refusals_of_delays_are_decided_again(tmp_path: Path, policies: str, still: int, others: str) -> None:
    recorded = [totals(asked=6000.0, limit=5000.0, refused=3), totals(asked=9000.0, limit=5000.0, refused=1)]
    (again,) = Delays(candidate(tmp_path, policies)).too_late(recorded)
    assert (again.refused, again.still, again.asked_ms, again.others) == (4, still, 9000, others)


def test_findings_say_how_each_policy_is_replayed(tmp_path: Path) -> None:
    tried = candidate(
        tmp_path,
        "max_publish_rate: 1\nconnection_rate_limit: 5\nmax_producers_per_topic: 3\n"
        "fixed_delivery_delay: 1s\nmax_subscription_dispatch_rate: 9\nmax_message_size: 0",
    )
    full = {policy: how for policy, how, _ in scope(tried, windows=False)}
    assert full == {
        "max_publish_rate": EXACT,
        "connection_rate_limit": EXACT,
        "max_producers_per_topic": BOUNDED,
        "fixed_delivery_delay": IN_PART,
        "max_subscription_dispatch_rate": EXACT,
    }
    summary = {policy: how for policy, how, _ in scope(tried, windows=True)}
    assert summary["max_publish_rate"] == summary["connection_rate_limit"] == BOUNDED
    assert summary["max_subscription_dispatch_rate"] == IN_PART


def test_findings_say_what_is_not_replayed(tmp_path: Path) -> None:
    tried = candidate(
        tmp_path,
        "publish_quota: 100\nprincipal_publish_quota_bytes: 1000\npublish_quota_bytes: 0\n"
        "storage_hard_consumed_bytes: 1GiB\nadaptive_publish_throttling_enabled: true\nmax_publish_rate: 1",
        "  quotas: [{principal: anna, messages: 5}]\n",
    )
    scopes = {policy: (how, why) for policy, how, why in scope(tried, windows=False)}
    assert {policy: how for policy, (how, _) in scopes.items()} == {
        "max_publish_rate": EXACT,
        "publish_quota": NOT_REPLAYED,
        "principal_publish_quota_bytes": NOT_REPLAYED,
        "quotas": NOT_REPLAYED,
        "storage_hard_consumed_bytes": NOT_REPLAYED,
        "adaptive_publish_throttling_enabled": NOT_REPLAYED,
    }
    over_topics = "it holds over all topics of a broker, and topics are replayed one by one"
    assert scopes["publish_quota"][1] == scopes["quotas"][1] == over_topics
    of_state = "it follows the state of the brokers, which is not in the log"
    assert scopes["storage_hard_consumed_bytes"][1] == of_state


def test_the_page_of_findings_has_notes_and_cuts_long_tables() -> None:
    rows = Table(("topic", "refused"), tuple((f"<t{n}>" * 30, n) for n in range(5_000)), "t", "Refused")
    results = of_log(
        "What if", "Much.", {"log": "x"}, (rows, Table(("a",), (), "e", "Delayed")), ("Only & so.",)
    )
    made = page(results)
    assert len(made.encode()) <= MAX_BYTES
    assert "&lt;t0&gt;" in made
    assert "<t0>" not in made
    assert "1,000 of 5,000 rows" in made
    assert "Only &amp; so." in made
    assert all("Only" in form for form in (markdown(results), to_json(results).decode()))
