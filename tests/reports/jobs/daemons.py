"""Processes that tests of places start: Spark's own, all of them from the pip package, and a store."""

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
from tests.waiting import LONG_S

BIN = Path(pyspark.__file__).parent / "bin"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


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
    run = [str(BIN / "spark-class")]
    master = [*run, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        stack.enter_context(daemon(folder, "master", [*master, "--webui-port", "0"], port))
        own = free_port()
        size = ["--cores", "2", "--memory", "2g", "--host", "127.0.0.1", "--port", str(own)]
        where = ["--webui-port", "0", "--work-dir", str(folder / "worker"), address]
        worker = [*run, "org.apache.spark.deploy.worker.Worker", *size, *where]
        stack.enter_context(daemon(folder, "worker", worker, own))
        yield address


@contextmanager
def store(folder: Path) -> Iterator[str]:
    """A server that talks like S3 and keeps all in memory (moto); gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with daemon(folder, "moto", command, port):
        yield f"http://127.0.0.1:{port}"
