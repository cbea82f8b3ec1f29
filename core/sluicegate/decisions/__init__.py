"""The decision log: every decision with its policy, topic and reasons, in files that Spark and others read.

Modules that need Arrow are not imported here, to keep Arrow out of the workers' memory.
"""

from sluicegate.decisions.files import Retention
from sluicegate.decisions.journal import RefusalJournal, explain_last
from sluicegate.decisions.log import DecisionLog

__all__ = ["DecisionLog", "RefusalJournal", "Retention", "explain_last"]
