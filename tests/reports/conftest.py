"""One Spark session for all tests of the reports, on this machine; without Java they skip, and say so."""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # For a hundred rows, code that is compiled and plans that are made anew take longer than the work. The
    # command's own runs, in other tests, are with both.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A machine that is slow, or busy with other things, must not look like one that is dead.
    "spark.network.timeout": "1800s",
    "spark.python.authenticate.socketTimeout": "1800s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Of the shared session; whatever else starts Spark for a few rows takes them too, with `little=True`."""


def need(missing: str) -> None:
    """Skip where Spark lacks something that it needs; with SLUICEGATE_REQUIRE_BROKER=1 that is a failure."""
    if os.environ.get("SLUICEGATE_REQUIRE_BROKER") == "1":
        pytest.fail(f"Spark is required here: {missing}")
    pytest.skip(f"no Spark: {missing}")


def need_java() -> None:
    """Skip or fail where there is no Java."""
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())):
        need("no Java (17 or later)")


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A session with two cores and few partitions."""
    need_java()
    from sluicegate_reports.runner.brokers.jars import S3, folder
    from sluicegate_reports.spark.session import spark_session

    # As a command that is given a place in S3 has it.
    further = {
        "spark.driver.extraClassPath": f"{folder(S3)}/*",
        # For the test that has this session serve Spark Connect.
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    session = spark_session("sluicegate tests", {**SETTINGS, **further}, little=True)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves its sockets to the collector
        session.stop()
