"""`sluicegate report` as a user runs it, with what Spark itself says of it; DuckDB beside it."""

import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.harness import procfs
from benchmarks.harness.jars import ROOT
from sluicegate.host.children import python_command

_ASK_S = 0.2
_MIB = 1 << 20
_JOBS = ('{"Event":"SparkListenerJobStart"', '{"Event":"SparkListenerJobEnd"')


def measured(
    directory: Path, folder: Path, timeout_s: float, *, master: str = "", cores: int = 0
) -> dict[str, float]:
    """Compare a run, with a page.

    :param directory: of the run.
    :param folder: for the page and for Spark's log of events.
    :param master: where Spark runs, as Spark names it; by default as the command chooses.
    :param cores: how many of the machine's cores it may use; 0 for all.
    :return: seconds of wall time, of CPU, of the tasks, and from the first job to the end of the last one;
        peak memory of the driver's Java and of the largest Python process, bytes shuffled. What workers of a
        cluster take is not among the CPU. Where the command needs no Spark, its figures are 0.
    :raises RuntimeError: if there is no report.
    """
    page, events = folder / "report.html", folder / "events"
    page.unlink(missing_ok=True)
    events.mkdir(exist_ok=True)
    for old in events.iterdir():
        old.unlink()
    argv = python_command("sluicegate", "report", "compare", str(directory), "--out", str(page))
    # What `spark-submit --conf` would set, as properties of Java: the command starts Spark itself.
    # Neither rolled nor compressed, as the log is read line by line.
    log = {"enabled": "true", "dir": events.as_uri(), "rolling.enabled": "false", "compress": "false"}
    own = " ".join(f"-Dspark.eventLog.{name}={value}" for name, value in log.items())
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": own}
    environment["XDG_CACHE_HOME"] = str(folder / "empty-cache")
    environment |= {"MASTER": master, "SPARK_LOCAL_IP": "127.0.0.1"} if master else {}
    started = time.monotonic()
    with (folder / "printed").open("wb") as printed:
        pinned = ["taskset", "--cpu-list", f"0-{cores - 1}"] if cores else []
        process = subprocess.Popen([*pinned, *argv], env=environment, stdout=printed, stderr=printed)
        seen = _watched(process, started + timeout_s)
    seconds = time.monotonic() - started
    if process.returncode or not page.exists():
        raise RuntimeError(f"no report: {(folder / 'printed').read_text()[-500:]}")
    return {"all_s": seconds, "page_kib": page.stat().st_size / 1024, **seen, **_of_events(events)}


def measured_in_sql(directory: Path, folder: Path, timeout_s: float) -> dict[str, float]:
    """The same work of DuckDB, see `report_sql`.

    :return: seconds of wall time and of CPU, peak memory.
    :raises RuntimeError: if it fails.
    """
    argv = python_command("benchmarks.harness.report_sql", str(directory))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.monotonic()
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(argv, env=environment, cwd=ROOT, stdout=printed, stderr=printed)
        seen = _watched(process, started + timeout_s)
    if process.returncode:
        raise RuntimeError(f"no figures: {(folder / 'printed').read_text()[-500:]}")
    return {"all_s": time.monotonic() - started, "cpu_s": seen["cpu_s"], "peak_mib": seen["python_peak_mib"]}


def followed(log: Path, folder: Path, timeout_s: float) -> dict[str, float]:
    """Follow a log from its beginning.

    :param folder: for the state, which is made anew.
    :return: seconds of wall time and of CPU, peak memory.
    :raises RuntimeError: if it fails.
    """
    state = folder / "followed"
    shutil.rmtree(state, ignore_errors=True)
    return _by_arrow(("follow", str(log), "--state", str(state)), folder, timeout_s)


def recommended(log: Path, folder: Path, timeout_s: float) -> dict[str, float]:
    """Recommend limits from a log.

    :param folder: for what it prints.
    :return: seconds of wall time and of CPU, peak memory.
    :raises RuntimeError: if it fails.
    """
    return _by_arrow(("recommend", str(log)), folder, timeout_s)


def _by_arrow(command: tuple[str, ...], folder: Path, timeout_s: float) -> dict[str, float]:
    """A command of `sluicegate report` that is a process without Java."""
    argv = python_command("sluicegate", "report", *command)
    started = time.monotonic()
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(argv, stdout=printed, stderr=printed)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seen = _watched(process, started + timeout_s)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise RuntimeError(f"no results: {(folder / 'printed').read_text()[-500:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"all_s": time.monotonic() - started, "cpu_s": cpu_s, "peak_mib": seen["python_peak_mib"]}


def _watched(process: "subprocess.Popen[bytes]", until: float) -> dict[str, float]:
    cpu: dict[int, float] = {}
    peaks = {"driver_peak_mib": 0.0, "python_peak_mib": 0.0}
    while process.poll() is None:
        if time.monotonic() > until:
            process.kill()
        cpu |= procfs.cpu_seconds_each(process.pid)
        for pid, peak in procfs.peak_bytes_each(process.pid).items():
            # Java is the driver, and on this machine all that runs in it.
            name = "driver_peak_mib" if procfs.is_java(pid) else "python_peak_mib"
            peaks[name] = max(peaks[name], peak / _MIB)
        time.sleep(_ASK_S)
    return {"cpu_s": sum(cpu.values()), **peaks}


def _of_events(folder: Path) -> dict[str, float]:
    shuffled = tasks_ms = spilled = 0
    count = 0
    times_ms = []
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            if line[:60].startswith(_JOBS):
                event = json.loads(line)
                times_ms.append(event.get("Submission Time") or event["Completion Time"])
            if '"SparkListenerTaskEnd"' not in line[:60]:
                continue
            metrics = json.loads(line).get("Task Metrics") or {}
            shuffled += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
            tasks_ms += metrics.get("Executor Run Time", 0)
            spilled += metrics.get("Disk Bytes Spilled", 0)
            count += 1
    return {
        "jobs_s": (max(times_ms, default=0) - min(times_ms, default=0)) / 1000,
        "shuffled_mib": shuffled / _MIB,
        "spilled_mib": spilled / _MIB,
        "tasks": float(count),
        "tasks_s": tasks_ms / 1000,
    }
