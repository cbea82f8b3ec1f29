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

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    # Each test is a short job: the second compiler would cost more than it saves. With one compiler Java
    # keeps 48 MiB for code unless told otherwise; when they are full, all that is new is interpreted.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
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


def need_java() -> None:
    """Skip where there is no Java; with SLUICEGATE_REQUIRE_BROKER=1 that is a failure."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").exists()):
        return
    if os.environ.get("SLUICEGATE_REQUIRE_BROKER") == "1":
        pytest.fail("Spark is required here: no Java (17 or later)")
    pytest.skip("no Spark: it needs Java 17 or later")


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A session with two cores and few partitions."""
    need_java()
    from sluicegate_reports.runner.brokers.jars import S3, folder
    from sluicegate_reports.session import spark_session

    # As a command that is given a place in S3 has it.
    further = {"spark.driver.extraClassPath": f"{folder(S3)}/*"}
    session = spark_session("sluicegate tests", {**_SETTINGS, **further}, little=True)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves its sockets to the collector
        session.stop()
