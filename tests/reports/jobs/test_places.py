"""The same job gives the same results on this machine, on a standalone cluster and over Spark Connect.

All of it comes from the pip package: a master, a worker and a Connect server on that cluster.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded
from tests.waiting import LONG_S

from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.results import from_json, to_json

_BIN = Path(pyspark.__file__).parent / "bin"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_JOB_S = 6 * LONG_S
"""Five Java processes share the machine while the job runs."""
_FEW = "--conf=spark.sql.shuffle.partitions=2"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**further: str) -> dict[str, str]:
    """Nothing of this process's own session; everything on one address and with this Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    kept.pop("MASTER", None)
    return {
        **kept,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "1g",
        # For masters, workers, executors and servers alike; each lives for one short job.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
        **further,
    }


@contextmanager
def daemon(folder: Path, name: str, command: Sequence[str], port: int) -> Iterator[None]:
    """A process of Spark's, ready when it listens; ended with all that it started."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command], cwd=folder, env=environment(), stdout=out, stderr=out, start_new_session=True
        )
    try:
        _wait_for(port, process, log)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Another process's port: there is nothing to be told by but trying."""
    until = time.monotonic() + LONG_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"{log.name} is not ready: {log.read_text()[-2_000:]}")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and a worker with two cores; gives the master's address."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    run = [str(_BIN / "spark-class")]
    master = [*run, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        stack.enter_context(daemon(folder, "master", [*master, "--webui-port", "0"], port))
        own = free_port()
        size = ["--cores", "2", "--memory", "2g", "--host", "127.0.0.1", "--port", str(own)]
        where = ["--webui-port", "0", "--work-dir", str(folder / "worker"), address]
        worker = [*run, "org.apache.spark.deploy.worker.Worker", *size, *where]
        stack.enter_context(daemon(folder, "worker", worker, own))
        yield address


def compared(directory: Path, folder: Path, **further: str) -> bytes:
    """Results of the job, as a process of its own finds them by the command line."""
    target = folder / "results.json"
    target.unlink(missing_ok=True)
    command = "from sluicegate.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "report", "compare", str(directory), "--out", str(target)],
        env=environment(**further),
        capture_output=True,
        text=True,
        timeout=_JOB_S,
        check=False,
    )
    assert target.exists(), f"{done.stdout}\n{done.stderr}"[-3_000:]
    return target.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(3 * _JOB_S)
def test_the_results_are_the_same_wherever_the_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    recorded.make_run(directory, gate_ahead_us=500_000)
    here = compare_run(spark, directory)
    assert len(here.matrix) == 12
    with cluster(tmp_path) as master:
        on_cluster = compared(directory, tmp_path, MASTER=master, PYSPARK_SUBMIT_ARGS=f"{_FEW} pyspark-shell")
        port = free_port()
        submit = [str(_BIN / "spark-submit"), "--class", _CONNECT, "--master", master, _FEW]
        bound = [f"--conf=spark.connect.grpc.binding.port={port}", "--conf=spark.ui.enabled=false"]
        with daemon(tmp_path, "connect", [*submit, *bound], port):
            connected = compared(directory, tmp_path, SPARK_REMOTE=f"sc://127.0.0.1:{port}")
    assert from_json(on_cluster) == here == from_json(connected)
    assert on_cluster.rstrip() == to_json(here).rstrip()
