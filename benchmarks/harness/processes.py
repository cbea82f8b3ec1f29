"""Child processes that are measured too."""

from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import procfs
from sluicegate.host.children import python_command
from sluicegate_reports.runner.brokers import processes
from sluicegate_reports.runner.brokers.ports import free_port, free_ports
from sluicegate_reports.runner.brokers.processes import UnavailableError, run_tool

__all__ = ["Child", "UnavailableError", "free_port", "free_ports", "run_tool", "start_module"]

_ROOT = Path(__file__).resolve().parents[2]


class Child(processes.Child):
    """A process with its output in a file, and what it takes."""

    def cpu_seconds(self) -> float:
        """CPU seconds of the whole tree so far."""
        return procfs.cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Resident memory of the whole tree."""
        return procfs.resident_bytes(self.pid)


def start_module(stack: ExitStack, directory: Path, module: str, *arguments: str) -> Child:
    """Start a module of the harness as a program; it ends with `stack`.

    :param directory: for its output; made if it is missing.
    :param module: its name in `benchmarks.harness`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    argv = python_command(f"benchmarks.harness.{module}", *arguments)
    child = Child(module, argv, directory / f"{module}.log", {"PYTHONPATH": str(_ROOT)})
    return stack.enter_context(child)
