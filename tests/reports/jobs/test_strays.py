"""Logs with rows from elsewhere or of several versions: they are named and change no figure."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded
from tests.reports.jobs.test_bad_input import verdicts

from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.model import observations
from sluicegate_reports.model.results import Results
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.page import page

_DAYS = 3_650
_TEN_YEARS_US = _DAYS * 86_400 * 1_000_000
_HOSTILE = "<img src=x>\x1b[31m,\n'\u202e`|"


def files(folder: Path, door: str) -> list[Path]:
    return sorted(folder.rglob(f"part-{door}*.parquet"))


def shift(directory: Path, client: str, by_us: int) -> None:
    """Set a client's clock another way, in its own rows and in what its messages say."""
    for path in files(directory / OBSERVATIONS, "proxy"):
        table = pq.ParquetFile(path).read()
        for name, whose in (("time", "client"), ("published", "producer")):
            mine = pc.fill_null(pc.equal(table[whose], client), False)
            far = pc.if_else(mine, pa.scalar(by_us, pa.duration("us")), pa.scalar(0, pa.duration("us")))
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), pc.add(table[name], far))
        pq.write_table(table, path)


def measured(results: Results) -> dict[str, float | None]:
    return {threshold.name: threshold.measured for threshold in results.thresholds}


def test_a_gate_clock_ten_years_off_is_corrected(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path, gate_ahead_us=-_TEN_YEARS_US)
    results = compare_run(spark, tmp_path)
    assert results.notes == (
        "kafka proxy: the gateway's clock differs from the clients' by about -3,650.0 days; the middle "
        "was taken off the gateway's times",
    )
    assert set(verdicts(results, "proxy").values()) == {Verdict.EXACT}


@pytest.mark.parametrize(("client", "by_us"), [("c1", -_TEN_YEARS_US), ("p1", _TEN_YEARS_US)])
def test_a_client_clock_ten_years_off_is_named(
    spark: SparkSession, tmp_path: Path, client: str, by_us: int
) -> None:
    recorded.make_run(tmp_path)
    shift(tmp_path, client, by_us)
    results = compare_run(spark, tmp_path)
    side = "after" if by_us > 0 else "before"
    reason = (
        f"by the clock of {client} rows lie 3,650.0 days {side} the run, so what clients saw there is left "
        "out"
    )
    assert results.notes == (f"kafka proxy, orders-proxy: {reason}",)
    assert verdicts(results, "proxy") == {
        "max_publish_rate": Verdict.UNCONFIRMED,
        "max_producers_per_topic": Verdict.MISSING,
        "max_message_size": Verdict.EXACT,  # another topic
        "fixed_delivery_delay": Verdict.MISSING,
    }
    assert {cell.text for cell in results.matrix if cell.policy == "fixed_delivery_delay"} >= {reason}
    assert measured(results)["lost_messages"] == 0
    assert "early_messages" not in measured(results)


def test_files_of_two_schema_versions_give_the_figures_of_one(
    spark: SparkSession, results: Results, tmp_path: Path
) -> None:
    recorded.make_run(tmp_path)
    for path in files(tmp_path / OBSERVATIONS, ""):
        table = pq.ParquetFile(path).read()
        half = table.num_rows // 2
        older = table.slice(0, half).drop_columns(["acknowledges"])
        pq.write_table(
            older.replace_schema_metadata({observations.VERSION_KEY: b"1"}),
            path.with_name(f"part-old-{path.name}"),
        )
        pq.write_table(table.slice(half), path)
    after = compare_run(spark, tmp_path)
    assert (after.notes, after.matrix, after.thresholds) == ((), results.matrix, results.thresholds)


def test_unknown_systems_and_malicious_names_do_no_harm(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "TOPIC", _HOSTILE)
    usual = {"topic": _HOSTILE, "principal": f"User:{_HOSTILE}"}
    make = recorded.decision
    monkeypatch.setattr(recorded, "decision", lambda *args, **changes: make(*args, **{**usual, **changes}))
    recorded.make_run(tmp_path)
    strange = [recorded.decision(n, system=_HOSTILE) for n in range(99)]
    recorded.write_decisions(tmp_path / DECISIONS, strange, "part-strange.parquet")
    results = compare_run(spark, tmp_path)
    assert results.notes == (
        f"decision log: 99 rows of {_HOSTILE}, which the run does not list, are left out",
    )
    assert set(verdicts(results, "proxy").values()) == {Verdict.EXACT}
    for text in (page(results), markdown(results)):
        assert not re.search(r"(?<!\\)<img", text)
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "99 rows of &lt;img src=x&gt;\\x1b[31m,\\n" in page(results)


def test_rows_of_another_run_in_the_same_directory_are_named_and_change_nothing(
    spark: SparkSession, results: Results, tmp_path: Path
) -> None:
    recorded.make_run(tmp_path)
    counts = {}
    for log in (DECISIONS, OBSERVATIONS):
        counts[log] = 0
        for path in files(tmp_path / log, ""):
            table = pq.ParquetFile(path).read()
            counts[log] += table.num_rows
            place = table.schema.get_field_index("run")
            other = pa.array(["r0"] * table.num_rows)
            path = tmp_path / log / "run=r0" / "system=kafka" / path.name
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.set_column(place, table.schema.field("run"), other), path)
    after = compare_run(spark, tmp_path)
    assert after.notes == tuple(
        f"{what}: {counts[log]:,} rows of another run, r0, are left out"
        for what, log in (("decision log", DECISIONS), ("observations", OBSERVATIONS))
    )
    assert (after.matrix, after.thresholds) == (results.matrix, results.thresholds)
