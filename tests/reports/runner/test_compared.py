"""A whole run on the reference Kafka, compared by Spark and by SQL of another engine."""

import asyncio

from pyspark.sql import SparkSession
from tests.reports.runner import in_sql
from tests.reports.runner.conftest import Record
from tests.reports.runner.test_runs import check_a_run_through_the_gate

from sluicegate_reports.jobs.compare import compare_run


async def test_clients_of_kafka_see_what_the_gate_decides_and_the_report_compares(
    record: Record, spark: SparkSession
) -> None:
    made = await check_a_run_through_the_gate(record, "kafka")
    results = await asyncio.to_thread(compare_run, spark, made.directory)
    assert in_sql.check(made.directory, made.run, results) >= 30
