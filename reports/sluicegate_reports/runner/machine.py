"""The versions and the machine that a run was made with."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sluicegate import __version__
from sluicegate_reports.runner.brokers.jars import java_version
from sluicegate_reports.runner.clients.registry import label

_LIBRARIES = ("grpcio", "pyarrow", "uvloop", "confluent-kafka")


def versions(systems: tuple[str, ...]) -> dict[str, str]:
    """Version of each program and library in use."""
    by_name = {"sluicegate": __version__, "python": platform.python_version()}
    for system in systems:
        name, _, number = label(system).partition(" ")
        by_name[name] = number
    for library in _LIBRARIES:
        try:
            by_name[library] = version(library)
        except PackageNotFoundError:
            continue
    launcher = shutil.which("java")
    java = java_version(launcher) if launcher else ""
    return by_name | ({"java": java} if java else {})


def machine() -> dict[str, str]:
    """The hardware and kernel; no names of machines or people."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_bytes / 2**30:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
