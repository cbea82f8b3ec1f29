"""A task that one holder does for all: who leads it, what the others tell, and what came of it."""

from dataclasses import dataclass, field

from sluicegate.budgets.budget_store import Turn


@dataclass(slots=True)
class LedTask:
    """How one task stands."""

    leader: str = ""
    """The holder that led it last; empty if none has."""
    end_us: int = 0
    """When its lease of the task ends."""
    findings: str = ""
    published_us: int = 0
    """When that was told."""
    reports: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What each holder tells, and until when."""

    def attend(self, holder: str, report: str, lease_us: int, now_us: int) -> Turn:
        """Report something, and take the lead if no other holder has it; see `BudgetStore.attend`."""
        for name in [name for name, (_, end_us) in self.reports.items() if end_us <= now_us]:
            del self.reports[name]
        self.reports.pop(holder, None)
        if report:
            self.reports[holder] = report, now_us + lease_us
        leads = self.leader == holder or self.end_us <= now_us
        if leads:
            self.leader, self.end_us = holder, now_us + lease_us
        age = max(0, now_us - self.published_us) / 1e6 if self.findings else 0.0
        others = {name: text for name, (text, _) in self.reports.items() if name != holder} if leads else {}
        return Turn(leads, self.findings, age, others)

    def publish(self, holder: str, findings: str, now_us: int) -> bool:
        """Say what came of it; see `BudgetStore.publish`."""
        if self.leader not in {holder, ""}:
            return False
        self.findings, self.published_us = findings, now_us
        return True

    def leave(self, holder: str) -> None:
        """Let another lead at once, and tell nothing any more."""
        self.reports.pop(holder, None)
        if self.leader == holder:
            self.end_us = 0
