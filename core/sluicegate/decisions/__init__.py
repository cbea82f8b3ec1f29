"""The decision log: every decision with its policy, topic and reasons, in files that Spark and others read.

Names that need Arrow are imported on first access, to keep Arrow out of the workers' memory.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sluicegate.decisions.columns import VERSION
from sluicegate.decisions.files import Retention
from sluicegate.decisions.ids import DecisionIds, id_in, with_id
from sluicegate.decisions.journal import (
    JournalError,
    Refusal,
    RefusalJournal,
    explain_last,
    explain_refusal,
)
from sluicegate.decisions.log import DecisionLog, LogStats
from sluicegate.decisions.spool import DecisionLogError

if TYPE_CHECKING:
    from sluicegate.decisions.reading import read_decisions
    from sluicegate.decisions.schema import SCHEMA

_LAZY = {"read_decisions": "sluicegate.decisions.reading", "SCHEMA": "sluicegate.decisions.schema"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


__all__ = [
    "DecisionLog",
    "LogStats",
    "Retention",
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
