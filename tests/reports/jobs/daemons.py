"""Processes for the tests of places: Spark's own, from the pip package, and an object store."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from tests.waiting import LONG_S

from sluicegate.demo.ports import free_ports
from sluicegate_reports.runner.brokers.processes import Child

BIN = Path(pyspark.__file__).parent / "bin"
CLUSTER = "local-cluster[1,2,1024]"
"""A standalone cluster on this machine: an executor with two cores and 1 GiB is a process of its own; Master
and Worker, which would be two more, are in the driver's."""


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


def connect(spark: SparkSession) -> str:
    """Have the Java of a session serve Spark Connect too; gives the address. It ends with the session."""
    service = spark.sparkContext._jvm.org.apache.spark.sql.connect.service  # type: ignore[union-attr]
    served = getattr(getattr(service, "SparkConnectService$"), "MODULE$")
    served.start(spark.sparkContext._jsc.sc())
    return f"sc://127.0.0.1:{served.localPort()}"


@contextmanager
def store(folder: Path) -> Iterator[str]:
    """A server that talks like S3 and keeps all in memory (moto); gives its address."""
    port = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with Child("moto", command, folder / "moto.log") as server:
        server.wait_for_port(port, LONG_S)
        yield f"http://127.0.0.1:{port}"
