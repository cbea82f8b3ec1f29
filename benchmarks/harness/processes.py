"""Child processes that are measured too."""

from benchmarks.harness import procfs
from sluicegate_reports.runner.brokers import processes
from sluicegate_reports.runner.brokers.ports import free_port, free_ports
from sluicegate_reports.runner.brokers.processes import UnavailableError, run_tool

__all__ = ["Child", "UnavailableError", "free_port", "free_ports", "run_tool"]


class Child(processes.Child):
    """A process with its output in a file, and what it takes."""

    def cpu_seconds(self) -> float:
        """CPU seconds of the whole tree so far."""
        return procfs.cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Resident memory of the whole tree."""
        return procfs.resident_bytes(self.pid)
