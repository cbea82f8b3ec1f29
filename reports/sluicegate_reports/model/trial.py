"""What a comparison run tries: one policy on one topic of one arm."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Trial:
    """One policy, tried on one topic of one arm in one phase."""

    policy: str
    """Its name in the file, one of `registry.policies`."""
    system: str
    door: str
    phase: str
    """The phase's name: the column `scenario` of the observations."""
    topic: str
    """Full name, as in the decision log and in the observations."""
    limit: float
    """In the unit of its `Measured`."""
    start: datetime
    """UTC, by the clients' clock: when clients started."""
    end: datetime
    """When they were asked to stop."""
    subscription: str = ""
    """The subscription that the limit applies to, where each has its own."""
    burst_seconds: float = 1.0
    """Of a rate: how many seconds' worth a full bucket holds."""
    saturated: bool = True
    """Of a rate: whether clients asked for more than the limit all the time, so that less is an error too."""
    nearest: str = ""
    """Why the system's own feature only comes close to the policy; the verdict is then never *exact*."""
    missing: str = ""
    """Why it was not tried; its figures are then missing."""
    not_applicable: str = ""
    """Why the system has no such policy at this door."""

    @property
    def burst(self) -> float:
        """What a full bucket holds, in the limit's unit without the second."""
        return self.limit * self.burst_seconds
