"""Absent brokers: since when, and their former addresses."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sluicegate_danube.failover.view import ClusterView


@dataclass
class Absences:
    """Brokers that own topics and are not registered.

    A broker counts as dead once it has been absent for the grace, by this process's own clock: from the
    moment at which the absence was first seen here, so never too early.
    """

    grace_ns: int
    """How long a registration must be gone. A broker that registers again meanwhile keeps its topics."""
    now_ns: Callable[[], int]
    """Monotonic time."""
    _since_ns: dict[int, int] = field(default_factory=dict)
    _addresses: dict[int, str] = field(default_factory=dict)

    def note(self, view: ClusterView) -> None:
        """Update the registered brokers."""
        now_ns, absent = self.now_ns(), list(view.absent())
        self._since_ns = {broker: self._since_ns.get(broker, now_ns) for broker in absent}
        addresses = {broker: self._addresses[broker] for broker in absent if broker in self._addresses}
        self._addresses = addresses | {broker: view.address(broker) for broker in view.registrations}

    def dead(self) -> list[int]:
        """The brokers whose topics are to move."""
        latest_ns = self.now_ns() - self.grace_ns
        return sorted(broker for broker, since_ns in self._since_ns.items() if since_ns <= latest_ns)

    def due_ns(self) -> int | None:
        """When the next broker's grace is over; None if there is none to wait for."""
        due = (since_ns + self.grace_ns for since_ns in self._since_ns.values())
        return min((due_ns for due_ns in due if due_ns > self.now_ns()), default=None)

    def since_ns(self, broker: int) -> int:
        """When a broker was first found absent; the time now if it is not."""
        return self._since_ns.get(broker, self.now_ns())

    def address(self, broker: int) -> str:
        """Where a broker was before it went."""
        return self._addresses.get(broker, "address unknown")

    def __len__(self) -> int:
        return len(self._since_ns)
