"""The decision log: what was decided, by whom, where and why, in files that Spark and others read."""

from sluicegate.decisions.files import Keeping
from sluicegate.decisions.ids import DecisionIds, id_in, with_id
from sluicegate.decisions.journal import (
    JournalError,
    Refusal,
    RefusalJournal,
    explain_last,
    explain_refusal,
)
from sluicegate.decisions.log import DecisionLog, LogStats
from sluicegate.decisions.reading import DecisionLogError, read_decisions
from sluicegate.decisions.schema import SCHEMA, VERSION

__all__ = [
    "DecisionLog",
    "LogStats",
    "Keeping",
    "DecisionIds",
    "id_in",
    "with_id",
    "JournalError",
    "Refusal",
    "RefusalJournal",
    "explain_last",
    "explain_refusal",
    "DecisionLogError",
    "read_decisions",
    "SCHEMA",
    "VERSION",
]
