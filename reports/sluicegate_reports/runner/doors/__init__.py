"""Doors: the access paths by which clients reach a system, each with the policies in force.

An arm is one system behind one door. A package adds further ones, such as those of a wrapper
around a client, by an entry point, see `sluicegate_reports.registry`.
"""

from sluicegate_reports.runner.doors.base import Arm, Judged, Setting, Way
from sluicegate_reports.runner.doors.registry import arms_of, known_doors

__all__ = ["Arm", "Judged", "Setting", "Way", "arms_of", "known_doors"]
