"""Processes that tests of places start: Spark's own, all of them from the pip package, and a store."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.waiting import LONG_S

BIN = Path(pyspark.__file__).parent / "bin"
CLUSTER = "local-cluster[1,2,1024]"
"""A standalone cluster on this machine: an executor with two cores and 1 GiB is a process of its own; Master
and Worker, which would be two more, are in the driver's."""


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


def connect(spark: SparkSession) -> str:
    """Have the Java of a session serve Spark Connect too; gives the address. It ends with the session."""
    service = spark.sparkContext._jvm.org.apache.spark.sql.connect.service  # type: ignore[union-attr]
    served = getattr(getattr(service, "SparkConnectService$"), "MODULE$")
    served.start(spark.sparkContext._jsc.sc())
    return f"sc://127.0.0.1:{served.localPort()}"


@contextmanager
def store(folder: Path) -> Iterator[str]:
    """A server that talks like S3 and keeps all in memory (moto); gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with daemon(folder, "moto", command, port):
        yield f"http://127.0.0.1:{port}"
