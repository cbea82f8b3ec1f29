"""Doors: the access paths by which clients reach a system, each with the policies in force.

An arm is one system behind one door. `ARMS` holds those of this package; a further door, such as a wrapper
around a client, adds its own by `register`.
"""

from sluicegate_reports.runner.doors.base import Arm, Judged, Setting, Way
from sluicegate_reports.runner.doors.registry import arms_of, known_doors, register

__all__ = ["Arm", "Judged", "Setting", "Way", "arms_of", "known_doors", "register"]
