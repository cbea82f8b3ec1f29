"""The program of a worker, before it serves."""

from pathlib import Path

from tests.signalled import lives


def test_signals_that_the_supervisor_obeys_do_not_end_it_while_it_is_loading(tmp_path: Path) -> None:
    assert lives("sluicegate.processes.worker_main", "uvloop", tmp_path)
