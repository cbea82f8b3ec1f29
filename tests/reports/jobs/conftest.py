"""The small run whose figures are known, compared once for all tests that look at it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded

from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.model.results import Results


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    recorded.make_run(directory)
    return directory


@pytest.fixture(scope="session")
def results(spark: SparkSession, run: Path) -> Results:
    return compare_run(spark, run)
