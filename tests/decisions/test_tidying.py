"""The process that makes Parquet files."""

from pathlib import Path

from tests.signalled import lives


def test_signals_that_the_supervisor_obeys_do_not_end_it(tmp_path: Path) -> None:
    assert lives("sluicegate.decisions.tidying", "pyarrow", tmp_path)
