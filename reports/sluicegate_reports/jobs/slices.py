"""Which topics of a run are cut into slices of time, so that several tasks share the work of one topic."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice

from sluicegate_reports.model.runs import Run
from sluicegate_reports.spark.log_files import opened
from sluicegate_reports.spark.reading import Log
from sluicegate_reports.transforms.lanes import microseconds
from sluicegate_reports.transforms.packed import TOPIC_COLUMNS
from sluicegate_reports.transforms.packing import CUT_FROM, SLICE_ROWS, Cuts

_LOOKS = 8
"""Files that are looked at to learn how many rows each topic has."""
_SECOND_US = 1_000_000


def cuts(run: Run, logs: Collection[Log], slice_rows: int = SLICE_ROWS) -> Cuts:
    """The topics that have many rows, and the length of their slices in us.

    :param logs: of the run.
    :param slice_rows: about so many rows of both logs in a slice.
    """
    if not run.trials or sum(log.rows for log in logs) < CUT_FROM * slice_rows:
        return {}
    begin_us = min(microseconds(trial.start) for trial in run.trials)
    length_us = max(microseconds(trial.end) for trial in run.trials) - begin_us
    rows: Counter[tuple[str, str, str]] = Counter()
    for log in logs:
        looked = Counter(_topic_keys(log))
        share = log.rows / max(looked.total(), 1)
        rows.update({topic_key: round(count * share) for topic_key, count in looked.items()})
    return {
        topic_key: max(-(-length_us * slice_rows // (count * _SECOND_US)), 1) * _SECOND_US
        for topic_key, count in rows.items()
        if count >= CUT_FROM * slice_rows
    }


def _topic_keys(log: Log) -> Iterator[tuple[str, str, str]]:
    """The topics of some rows: of the first rows of some files, evenly chosen."""
    files = [*log.whole]
    for file in islice(files, 0, None, max(len(files) // _LOOKS, 1)):
        with opened(file) as parquet:
            if parquet.metadata.num_row_groups:
                columns = parquet.read_row_group(0, columns=list(TOPIC_COLUMNS)).to_pydict()
                yield from zip(*(columns[name] for name in TOPIC_COLUMNS), strict=True)
