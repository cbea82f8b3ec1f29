"""The decision log: every decision with its policy, topic and reasons, in files that Spark and others read.

What needs Arrow is loaded when it is first asked for: the process that decides is not to carry it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sluicegate.decisions.columns import VERSION
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
from sluicegate.decisions.spool import DecisionLogError

if TYPE_CHECKING:
    from sluicegate.decisions.reading import read_decisions
    from sluicegate.decisions.schema import SCHEMA

_LATER = {"read_decisions": "sluicegate.decisions.reading", "SCHEMA": "sluicegate.decisions.schema"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


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
