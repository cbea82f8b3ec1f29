"""docs/decision-log.md: its columns are the schema's, and its ways of reading a log work."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sluicegate.decisions import DecisionLog
from sluicegate.decisions.columns import COLUMNS, VERSION
from sluicegate.decisions.interned import LIMIT, TABLES
from sluicegate.decisions.journal import Refusal, render
from sluicegate.decisions.rows import MAX_BATCH_ROWS
from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import FORM
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason
from sluicegate.testing import build_gate

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "decision-log.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture
def a_log(tmp_path: Path) -> Path:
    """The directory of a log with one refusal and one allow."""
    log = DecisionLog(tmp_path / "var" / "sluicegate" / "decisions", "kafka", "main", detail="full")
    gate = build_gate({}, now_ns=0)
    op = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=9)
    log.allowed(gate, op, 0)
    reason = Reason("max_message_size", Outcome.INVALID, "too large", 9, 8)
    log.decided(gate, op, Decision(Action.REJECT, (reason,)), 0)
    assert log.close()
    return tmp_path


def test_every_column_is_explained_as_in_the_schema() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| `")]

    assert rows == [f"| `{c.name}` | {c.type} | {c.unit} | {c.meaning} |" for c in COLUMNS]
    assert [column.name for column in COLUMNS] == SCHEMA.names
    assert f"schema version {VERSION} " in DOCUMENT


@pytest.mark.parametrize("number", [0, 1])
def test_the_ways_of_reading_find_the_refusal(
    a_log: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(a_log)
    found: dict[str, Any] = {}

    exec(SNIPPETS[number], found)

    table = found.get("refused", found["table"])
    assert table.column("policy").to_pylist() == ["max_message_size"]


def test_pandas_finds_the_refusal(a_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(a_log)
    [snippet] = [snippet for snippet in SNIPPETS if "pandas" in snippet]
    found: dict[str, Any] = {}

    exec(snippet, found)

    assert found["table"]["policy"].to_list() == ["max_message_size"]


def test_duckdb_finds_the_refusal(a_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(a_log)
    [query] = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)

    assert duckdb.sql(query).fetchall() == [("orders.eu", "max_message_size", "reject", 1)]


def test_the_spool_is_described_as_it_is() -> None:
    [example] = re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    head, batch = map(json.loads, example.replace("\n ", " ").splitlines())

    assert (head["version"], head["form"]) == (VERSION, FORM)
    assert f"{LIMIT:,} entries" in DOCUMENT
    assert f"up to {MAX_BATCH_ROWS:,}\nrows" in DOCUMENT
    for name, (first, entries) in batch["new"].items():
        assert name in TABLES
        assert first == 0
        width = len(TABLES[name])
        assert all(isinstance(entry, str) if width == 1 else len(entry) == width for entry in entries)


def test_the_explanation_shown_has_the_form_of_a_real_one() -> None:
    reason = Reason("max_producers_per_topic", Outcome.LIMIT_REACHED, "Producer limit", 10, 10, "topic")
    real = render(
        Refusal(
            id="k3x9qa-1f",
            time_ns=0,
            client="orders@10.0.0.7:51234",
            principal="User:anna",
            system="kafka",
            gateway="main",
            topic="orders.eu",
            subscription="",
            operation="attach_producer",
            action="reject",
            policy_version=0x518CAA6FDD43,
            reasons=(reason,),
        )
    )

    shown = [line for line in real.splitlines() if "when" not in line and "Producer limit" not in line]
    assert all(line in DOCUMENT for line in shown)
