"""The same job gives the same results on this machine, on a standalone cluster and over Spark Connect.

The cluster's executor is a process of its own; Spark Connect is served by the tests' own session, to a client
that is a process of its own. Both read the run from a store that talks like S3, and write the report into it.
A log in a store is read and followed as one here is; a store that fails is named, and gives no figure.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyspark.sql import SparkSession
from tests.reports import recorded
from tests.reports.conftest import need
from tests.reports.jobs import daemons
from tests.reports.jobs.follow.test_follow import counted, put_file
from tests.waiting import LONG_S

from sluicegate_reports.jobs import follow_sums
from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.jobs.follow import FollowError, findings, follow
from sluicegate_reports.model.listing import listing
from sluicegate_reports.model.locations import Location, LocationError, locate
from sluicegate_reports.model.results import from_json
from sluicegate_reports.model.runs import measured_as, read_run, write_run
from sluicegate_reports.runner.brokers.jars import S3, classpath
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.spark.compaction import compact
from sluicegate_reports.spark.delta_table import Recorded, record
from sluicegate_reports.spark.reading import read_decisions

_JOB_S = 6 * LONG_S
"""Several Java processes share the machine while the job runs."""
_SUBMITTED = "from sluicegate.cli import main\n\nmain()\n"
"""As docs/reports.md has it."""
_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
}
"""For a few hundred rows on one machine."""


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A store with a bucket; gives the environment that leads to it.

    There is one for the whole process, as the process keeps the connection to a store once it is open.
    """
    with daemons.store(tmp_path_factory.mktemp("store")) as address:
        environment = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        yield environment


@pytest.fixture
def keys(served: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The environment that leads to the store, set; its bucket is there."""
    for name, value in served.items():
        monkeypatch.setenv(name, value)
    made, name = fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
    made.create_dir(name)
    return served


@pytest.fixture
def near(spark: SparkSession, keys: Mapping[str, str]) -> SparkSession:
    """The shared session, which reaches the store; its Java was started before there was one."""
    try:
        classpath(S3)
    except UnavailableError as error:
        need(str(error))
    settings = {"endpoint": "AWS_ENDPOINT_URL", "access.key": "AWS_ACCESS_KEY_ID"}
    settings |= {"secret.key": "AWS_SECRET_ACCESS_KEY", "endpoint.region": "AWS_REGION"}
    # Not of this session: one over Spark Connect is another, in the same Java.
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, key in settings.items():
        hadoop.set(f"fs.s3a.{name}", keys[key])
    hadoop.set("fs.s3a.path.style.access", "true")
    return spark


def put(folder: Path, target: str) -> Location:
    """Copy a folder into the store."""
    there = locate(f"s3://bucket/{target}")
    for file in locate(folder).files():
        copy = Location(f"{there}/{file.location.relative_to(locate(folder))}")
        copy.write_bytes(file.location.read_bytes())
    return there


def test_a_log_in_a_store_is_followed_and_a_call_may_end_at_any_time(
    keys: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_sums, "MERGED_AT_ONCE", 2)
    put_file(tmp_path, 0)
    put_file(tmp_path, 1)
    log, state = put(tmp_path, "log"), locate("s3a://bucket/state")
    with monkeypatch.context() as patch:
        patch.setattr(Location, "remove", lambda self: pytest.fail(f"{self} was removed"))
        with pytest.raises(pytest.fail.Exception, match="batch-0"):
            follow(log, state, files_per_batch=1)
    again = follow(log, state, files_per_batch=1)
    assert (again.batches, again.new_batches, counted(again)) == (2, 0, (11, 6))
    put_file(tmp_path / "new", 2)
    put(tmp_path / "new", "log")
    then = follow(log, state)
    assert (then.new_batches, findings(then).summary) == (1, "9 decisions, of them 3 refused or dropped.")
    assert [file.location.name for file in state.files()] == ["batch-0-1.parquet", "batch-2.parquet"]
    torn = log / "run=r/system=kafka/part-torn.parquet"
    torn.write_bytes(b"PAR1 and no end")
    with pytest.raises(FollowError, match=r"s3a://bucket/log/.*part-torn.parquet is damaged"):
        follow(log, state)


def test_damaged_files_in_a_store_are_named(near: SparkSession, tmp_path: Path) -> None:
    put_file(tmp_path, 0)
    log = put(tmp_path, "damaged")
    torn = log / "run=r/system=kafka/part-torn.parquet"
    torn.write_bytes(b"PAR1 and no end")
    (log / "run=r/system=kafka/.part-main-9.jsonl").write_bytes(b"{}")
    read = read_decisions(log)
    assert (read.rows, read.frame(near).count()) == (3, 3)
    reasons = {left.path.name: left.reason for left in read.left_out}
    assert reasons[torn.name].startswith("is damaged")
    assert "machine that wrote it" in reasons[".part-main-9.jsonl"]


def test_a_store_that_fails_midway_is_named(near: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is listed and then refused is no damaged one: what is left would give other figures."""
    log = locate("s3a://bucket/failing")
    (log / "run=r/system=kafka/part-1.parquet").write_bytes(b"PAR1")

    def refuse(self: Location) -> bytes:
        raise OSError("AWS Error SLOW_DOWN during GetObject operation: reduce your request rate")

    monkeypatch.setattr(Location, "read_bytes", refuse)
    with pytest.raises(
        LocationError, match=r"cannot read s3a://bucket/failing/.*part-1.parquet: .*SLOW_DOWN"
    ):
        read_decisions(log)
    monkeypatch.setattr(Location, "files", refuse)
    with pytest.raises(LocationError, match=r"cannot list s3a://bucket/failing: .*SLOW_DOWN"):
        read_decisions(log)


def test_a_file_appears_in_a_store_only_when_complete(keys: Mapping[str, str]) -> None:
    target, half = locate("s3a://bucket/out/report.md"), cast("bytes", "half")
    with pytest.raises(TypeError), target.written() as file:
        file.write(half)
    assert not target.exists()
    target.write_bytes(b"all")
    assert (target.read_bytes(), [file.location.name for file in target.parent.files()]) == (
        b"all",
        ["report.md"],
    )


def test_a_log_is_compacted_into_a_store(keys: Mapping[str, str], tmp_path: Path) -> None:
    put_file(tmp_path, 0)
    put_file(tmp_path, 1)
    copy = locate("s3a://bucket/copy")
    assert (compact(tmp_path, copy).rows, compact(tmp_path, copy).rows) == (6, 0)
    (gathered,) = copy.files()
    assert gathered.location.parent.relative_to(copy) == "run=r/system=kafka/date=2026-11-21"
    assert (record(copy), record(copy)) == (Recorded(1, 0), Recorded(0, 0))
    options = {"allow_http": "true"}
    assert DeltaTable(copy.url, storage_options=options).to_pyarrow_dataset().count_rows() == 6
    assert (compact(tmp_path, copy).rows, len(listing(copy).files)) == (0, 1)
    assert compact(copy, tmp_path / "back").rows == 6


def compared(command: list[str], report: Location, **further: str) -> str:
    """Results of the job, as a process of its own finds them and puts them into the store."""
    done = subprocess.run(
        [*command, "report", "compare", "s3a://bucket/run", "--out", str(report)],
        env=daemons.environment(**further),
        capture_output=True,
        text=True,
        timeout=_JOB_S,
        check=False,
    )
    assert report.exists(), f"{done.stdout}\n{done.stderr}"[-3_000:]
    return report.read_bytes().decode()


@pytest.mark.slow
@pytest.mark.longer
@pytest.mark.timeout(3 * _JOB_S)
def test_the_results_are_the_same_wherever_the_job_runs(
    near: SparkSession, keys: Mapping[str, str], tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    recorded.make_run(directory, gate_ahead_us=500_000)
    run = read_run(directory)
    # One of each kind: what is compared is where it runs.
    kinds = {measured_as(trial).family: trial for trial in run.trials}
    write_run(directory, replace(run, trials=tuple(kinds.values())))
    put(directory, "run")
    here = compare_run(near, directory)
    jars = classpath(S3)
    conf = {
        **_SMALL,
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint": keys["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": keys["AWS_REGION"],
    }
    submit = [str(daemons.BIN / "spark-submit"), *(f"--conf={name}={value}" for name, value in conf.items())]
    app = tmp_path / "sluicegate_app.py"
    app.write_text(_SUBMITTED)
    command = [*submit, "--master", daemons.CLUSTER, str(app)]
    on_cluster = compared(command, locate("s3a://bucket/cluster.json"), SPARK_HOME=str(daemons.BIN.parent))
    command, remote = [sys.executable, "-c", _SUBMITTED], daemons.connect(near)
    connected = compared(command, locate("s3a://bucket/connect.json"), SPARK_REMOTE=remote)
    assert len(here.matrix) >= len(kinds)
    assert from_json(on_cluster) == here == from_json(connected)
