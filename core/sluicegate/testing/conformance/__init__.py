"""One table of scenarios for every door: what is refused, held and delivered is the same at each of them.

A broker room gives its doors as a `Driver`; `pytest --sluicegate-driver package.module:DRIVER` plays the
table at each of them. What a door decided is decided again in manual time, and must be the same.
"""

from sluicegate.testing.conformance.door import (
    Consumer,
    Door,
    DoorKind,
    Driver,
    Producer,
    Received,
    RefusedByDoor,
    Sample,
    Setup,
    without_in_clients,
)
from sluicegate.testing.conformance.scenarios import Ability, Scenario

__all__ = [
    "Ability",
    "Consumer",
    "Door",
    "DoorKind",
    "Driver",
    "Producer",
    "Received",
    "RefusedByDoor",
    "Sample",
    "Scenario",
    "Setup",
    "without_in_clients",
]
