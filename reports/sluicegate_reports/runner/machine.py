"""The versions and the machine that a run was made with."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sluicegate import __version__
from sluicegate_reports.runner.clients import label

_LIBRARIES = ("grpcio", "pyarrow", "uvloop", "confluent-kafka")


def versions(systems: tuple[str, ...]) -> dict[str, str]:
    """Version of each program and library in use."""
    found = {"sluicegate": __version__, "python": platform.python_version()}
    for system in systems:
        name, _, number = label(system).partition(" ")
        found[name] = number
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    java = _java()
    return found | ({"java": java} if java else {})


def machine() -> dict[str, str]:
    """What it runs on; no names of machines or people."""
    return {
        "cpu": _cpu(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{_memory_bytes() / 2**30:.1f} GiB",
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


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _java() -> str:
    launcher = shutil.which("java")
    if launcher is None:
        return ""
    done = subprocess.run(  # noqa: S603 - found on the path
        [launcher, "-version"], capture_output=True, text=True, check=False, timeout=20
    )
    lines = (done.stderr or done.stdout).splitlines()
    return lines[0].partition('"')[2].partition('"')[0] if lines else ""
