"""The refusal journal answers for an id, for a client, and never stops the log."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.decisions.conftest import SECOND_NS, FakeGate, publish, rejection
from tests.waiting import LONG_S, until

from sluicegate.decisions import DecisionLog, RefusalJournal, explain_last
from sluicegate.decisions import journal as journal_module
from sluicegate.decisions.journal import FILE_NAME, JournalError, explain_refusal, find, last
from sluicegate.decisions.rows import Row
from sluicegate.model import Action, Decision, OperationKind

OpenLog = Callable[..., DecisionLog]


def row(
    decision_id: str, action: Action = Action.REJECT, client: str = "app@h:1", observed: bool = False
) -> Row:
    decision = Decision(action, rejection().reasons, observed=observed, policy_version=7, id=decision_id)
    return (0, FakeGate(), OperationKind.ATTACH_PRODUCER, "User:anna", client, "", 0, 0, decision)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RefusalJournal]:
    journal = RefusalJournal(tmp_path, "kafka", "main")
    yield journal
    journal.close()


def test_a_refusal_is_found_soon_without_any_further_traffic(tmp_path: Path, gate: FakeGate) -> None:
    log = DecisionLog(None, "kafka", "main", journal=RefusalJournal(tmp_path, "kafka", "main"))
    stamped = log.decided(gate, publish(), rejection(), time.monotonic_ns())

    until(lambda: (tmp_path / FILE_NAME).exists() and find(tmp_path, stamped.id) is not None)
    assert log.close()

    refusal = find(tmp_path, stamped.id)
    assert refusal is not None
    assert abs(refusal.time_ns - time.time_ns()) < 60e9
    assert refusal.reasons == rejection().reasons
    assert (refusal.policy_version, refusal.topic, refusal.action) == (7, "orders.eu", "reject")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2_000_001, "2000001"), (1_048_576.0, "1048576"), (0.1, "0.1"), (2**53, "9007199254740992")],
)
def test_numbers_are_shown_to_the_last_digit(
    tmp_path: Path, journal: RefusalJournal, value: float, shown: str
) -> None:
    reason = replace(rejection().reasons[0], current=value, limit=value)
    decision = Decision(Action.REJECT, (reason,), id="abcd-1", policy_version=7)
    journal.record([(0, FakeGate(), OperationKind.PUBLISH, "", "app@h:1", "", 0, 0, decision)], 0, 0)

    assert f"          current {shown}, limit {shown}\n" in explain_refusal(tmp_path, "abcd-1")


@pytest.mark.seed("S1-103")
def test_the_explanation_says_what_who_where_which_limit_and_what_to_do(
    tmp_path: Path, journal: RefusalJournal
) -> None:
    journal.record([row("abcd-1")], 1_700_000_000_123_000_000, 0)

    assert explain_refusal(tmp_path, "error 44: full [sluicegate abcd-1]") == (
        "decision abcd-1: attach producer refused\n"
        "  when    2023-11-14T22:13:20.123+00:00\n"
        "  who     User:anna, client app@h:1\n"
        "  where   main (kafka), topic orders.eu\n"
        "  rules   policy version 000000000007\n"
        "  policy  max_producers_per_topic (set at topic level): the limit is reached\n"
        "          current 10, limit 10\n"
        "          Producer limit reached for topic orders.eu. Current: 10, Limit: 10."
    )


def test_the_last_refusal_of_a_client_is_found_with_or_without_its_address(
    tmp_path: Path, journal: RefusalJournal
) -> None:
    journal.record(
        [row("abcd-1"), row("abcd-2", client="app@h:2"), row("abcd-3", client="application@h:3")], 0, 0
    )

    found = [last(tmp_path, client) for client in ("app", "app@h:1", "application")]
    assert [refusal and refusal.id for refusal in found] == ["abcd-2", "abcd-1", "abcd-3"]
    assert explain_last(tmp_path, "app").startswith("decision abcd-2")
    with pytest.raises(JournalError, match=r"no refusals of client 'ap'.*expected a client id"):
        explain_last(tmp_path, "ap")


def test_only_what_was_really_refused_or_held_is_kept(tmp_path: Path, journal: RefusalJournal) -> None:
    allow: Row = (0, FakeGate(), OperationKind.PUBLISH, "p", "c", "", 1, 1, None)
    journal.record(
        [
            allow,
            row("abcd-1", Action.DROP),
            row("abcd-2", Action.DELAY),
            row("abcd-3", Action.REWRITE),
            row("abcd-4", observed=True),
        ],
        0,
        0,
    )

    kept = {n for n in range(1, 5) if find(tmp_path, f"abcd-{n}") is not None}
    assert kept == {1, 2}
    assert "publish" not in explain_refusal(tmp_path, "abcd-2")
    assert explain_refusal(tmp_path, "abcd-2").startswith("decision abcd-2: attach producer held back")


def test_the_journal_is_bounded_and_holds_do_not_push_refusals_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MAX_HOLDS", 10)
    journal = RefusalJournal(tmp_path, "kafka", "main", max_refusals=50)
    for start in range(0, 300, 30):
        journal.record([row(f"held-{n}", Action.DELAY) for n in range(start, start + 30)], 0, 0)
        journal.record([row(f"full-{n}") for n in range(start, start + 30)], 0, 0)

    database = sqlite3.connect(tmp_path / FILE_NAME)
    counts = dict(database.execute("SELECT held, count(*) FROM refusals GROUP BY held"))
    database.close()
    assert counts == {0: 50, 1: 10}
    assert find(tmp_path, "full-299") is not None
    assert find(tmp_path, "full-249") is None
    journal.close()


def test_a_flood_is_cut_and_the_rest_counted(tmp_path: Path, journal: RefusalJournal) -> None:
    journal.record([row(f"abcd-{n}") for n in range(1_500)], 0, 0)

    assert journal.skipped == 500
    assert find(tmp_path, "abcd-1499") is not None
    assert find(tmp_path, "abcd-0") is None


def test_two_workers_share_the_journal(tmp_path: Path, journal: RefusalJournal) -> None:
    other = RefusalJournal(tmp_path, "kafka", "second")
    journal.record([row("abcd-1")], 0, 0)
    other.record([row("efgh-1")], 0, 0)
    journal.record([row("abcd-2")], 0, 0)

    found = [find(tmp_path, key) for key in ("abcd-1", "efgh-1", "abcd-2")]
    assert [refusal and refusal.gateway for refusal in found] == ["main", "second", "main"]
    other.close()
    journal.close()


def test_a_damaged_journal_is_set_aside_and_begun_cleared(
    tmp_path: Path, journal: RefusalJournal, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 100)
    with pytest.raises(JournalError, match=r"cannot read refusal journal.*remove it"):
        find(tmp_path, "abcd-1")

    journal.record([row("abcd-1")], 0, 0)
    journal.record([row("abcd-2")], 0, 0)

    assert journal.errors == 1
    assert "is damaged" in caplog.text
    assert (tmp_path / f"{FILE_NAME}.damaged").exists()
    assert find(tmp_path, "abcd-2") is not None


@pytest.mark.parametrize("journal_mode", ["DELETE", "WAL"])
def test_a_journal_that_has_no_table_yet_is_one_without_refusals(tmp_path: Path, journal_mode: str) -> None:
    """It looks so for a moment, between the making of the file and of its table."""
    (tmp_path / FILE_NAME).touch()
    assert find(tmp_path, "abcd-1") is None

    database = sqlite3.connect(tmp_path / FILE_NAME)
    database.execute(f"PRAGMA journal_mode = {journal_mode}")
    database.execute("CREATE TABLE another (thing TEXT)")
    database.close()
    assert find(tmp_path, "abcd-1") is None
    assert last(tmp_path, "app") is None
    with pytest.raises(JournalError, match="no refusal 'abcd-1'"):
        explain_refusal(tmp_path, "abcd-1")


def test_workers_that_make_the_journal_at_once_lose_nothing(
    tmp_path: Path, journal: RefusalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not wait by itself for another process that is making the same file."""
    monkeypatch.setattr(journal_module, "_BUSY_S", LONG_S)
    maker = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    maker.execute("CREATE TABLE made_by_another (thing TEXT)")
    done = threading.Timer(0.05, maker.execute, ["COMMIT"])
    done.start()

    journal.record([row("abcd-1")], 0, 0)

    done.join()
    maker.close()
    assert journal.errors == 0
    assert find(tmp_path, "abcd-1") is not None


def test_a_journal_that_cannot_be_written_is_counted_and_the_log_continues(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file is in the way")
    log = open_log(None, journal=RefusalJournal(tmp_path / "state", "kafka", "main"))
    log.decided(gate, publish(), rejection(), 0)
    log.close()

    stats = log.stats()
    assert (stats.emitted, stats.dropped) == (1, 0)
    assert stats.journal_errors > 0
    assert stats.journal_lost == 1
    assert "cannot be written" in caplog.text


def test_a_locked_journal_does_not_hold_the_log_up_and_loses_nothing_for_a_while(
    tmp_path: Path, journal: RefusalJournal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.record([row("abcd-1")], 0, 0)
    blocker = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    for number in range(2, 50):
        journal.record([row(f"abcd-{number}")], 0, number)

    assert journal.errors == 1  # it was not asked again at once
    assert len(journal._waiting) == 48
    blocker.execute("ROLLBACK")
    blocker.close()
    journal.record([], 0, SECOND_NS)

    assert [find(tmp_path, f"abcd-{number}") is not None for number in (1, 2, 49)] == [True] * 3
    assert (len(journal._waiting), journal.lost, journal.skipped) == (0, 0, 0)
    assert len([line for line in caplog.messages if "cannot be written" in line]) == 1
    assert "is writable again; 0 refusals are missing" in caplog.text


def test_what_waits_for_a_journal_is_bounded_and_the_rest_is_counted_exactly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    state.write_text("a file is in the way")
    journal = RefusalJournal(state, "kafka", "main")
    for start in range(0, 2_500, 100):
        journal.record([row(f"abcd-{n}") for n in range(start, start + 100)], 0, start)
    assert (len(journal._waiting), journal.lost) == (1_000, 1_500)

    state.unlink()
    journal.record([row("abcd-2500")], 0, SECOND_NS)

    assert (len(journal._waiting), journal.lost) == (0, 1_501)
    assert "is writable again; 1501 refusals are missing" in caplog.text
    assert [find(state, f"abcd-{number}") is not None for number in (1_500, 1_501, 2_500)] == [
        False,
        True,
        True,
    ]
    journal.close()


def test_a_journal_that_was_removed_to_make_room_is_begun_cleared(
    tmp_path: Path, journal: RefusalJournal
) -> None:
    journal.record([row("abcd-1")], 0, 0)
    for file in tmp_path.glob(f"{FILE_NAME}*"):
        file.unlink()
    journal.record([row("abcd-2")], 0, 0)
    assert find(tmp_path, "abcd-1") is None
    assert find(tmp_path, "abcd-2") is not None


def test_a_damaged_journal_that_cannot_be_moved_is_logged_without_a_traceback(
    tmp_path: Path, journal: RefusalJournal, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is no database" * 100)

    def read_only(self: Path, target: Path) -> Path:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", read_only)
        journal.record([row("abcd-1")], 0, 0)
    assert len(journal._waiting) == 1
    assert "Read-only file system" in caplog.text
    assert not any(record.exc_info for record in caplog.records)

    journal.record([], 0, 2 * SECOND_NS)
    assert find(tmp_path, "abcd-1") is not None


def test_without_a_journal_or_an_entry_the_error_says_what_to_do(
    tmp_path: Path, journal: RefusalJournal
) -> None:
    with pytest.raises(JournalError, match="nothing was refused yet, or state_dir is another one"):
        explain_refusal(tmp_path, "abcd-1")

    journal.record([row("abcd-1")], 0, 0)
    with pytest.raises(JournalError, match=r"no refusal 'abcd-9'.*older ones are in the decision log"):
        explain_refusal(tmp_path, "abcd-9")
