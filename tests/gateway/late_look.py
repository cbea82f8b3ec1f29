"""A plugin whose gateway sees its own note when it looks for it, and has another one by the time it acts."""

from pathlib import Path

from tests.waiting import until

from sluicegate.admin import own_note
from sluicegate.admin.running_note import RunningNote, read_note


def _read_late(path: Path) -> RunningNote | None:
    note = read_note(path)
    until(lambda: read_note(path) != note)
    return note


vars(own_note)["read_note"] = _read_late
