"""What gateways' logs tell of refused messages, to compare it with what producers were told."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.transforms.attribution import SLACK_US, clients_us


def rejections(
    decisions: DataFrame, tries: DataFrame, ahead_us: Mapping[tuple[str, str], float]
) -> DataFrame:
    """The messages that a trial's policy refused, as the log tells.

    :param decisions: columns of the decision log.
    :param tries: see `lanes.tries`, of sizes or of delays that producers ask for.
    :param ahead_us: by how much gates' clocks are ahead of the clients', by system and door.
    :return: `trial`, `log_refused`; no row of a trial whose topic the log tells nothing of.
    """
    refused = F.col("action").isin("reject", "drop") & (F.col("refused_by") == F.col("policy"))
    return (
        decisions.where((F.col("operation") == "publish") & (F.col("action") != "delay"))
        .select(
            *("system", "door", "topic", "action", "messages"),
            F.col("policy").alias("refused_by"),
            clients_us(ahead_us).alias("at_us"),
        )
        .join(F.broadcast(tries), on=["system", "door", "topic"], how="inner")
        .where(F.col("at_us").between(F.col("begin_us") - SLACK_US, F.col("end_us") + SLACK_US))
        .groupBy("trial")
        .agg(F.sum(F.when(refused, F.col("messages")).otherwise(0)).alias("log_refused"))
    )
