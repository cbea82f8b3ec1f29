"""Chunks: what a lane admitted in one second, as a sorted array of numbers with eight bytes a row.

Whatever has to look at each single row of a lane in order of time starts from them: they are made by one pass
over the log, and take a small part of its room and of the time that sorting it would.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

CHUNK_US = 1_000_000
AMOUNT_BITS = 43
"""A row of a chunk is one number of 63 bits: 20 for its time in us, these for its amount."""
_AMOUNT_MASK = (1 << AMOUNT_BITS) - 1
_CHUNK_BITS = 40
"""Likewise lane, source and chunk are one number, the chunk in these bits."""


def chunks(flows: DataFrame, judged_us: int) -> DataFrame:
    """The chunks of each lane in which there is anything.

    :param flows: see `flows`.
    :param judged_us: up to so long after a lane's start what a gateway did not let pass is kept too.
    :return: `lane`, `source`, `chunk` (0 begins with the lane), `admitted` and `limited` (sorted; of what a
        gate refused or dropped), `window_ms` (the longest).
    """
    of_log, passed = F.col("source") == "log", F.col("action") == "admitted"
    refused = of_log & F.col("action").isin("refused", "dropped") & (F.col("at_us") < judged_us)
    stream = F.col("lane") * 2 + of_log.cast("long")
    packed = (F.col("at_us") % CHUNK_US) * (1 << AMOUNT_BITS) + F.col("amount")
    found = (
        flows.where(passed | refused)
        .select(
            (stream * (1 << _CHUNK_BITS) + F.floor(F.col("at_us") / CHUNK_US)).alias("key"),
            packed.alias("packed"),
            passed.alias("passed"),
            "window_ms",
        )
        .groupBy("key")
        .agg(
            F.sort_array(F.collect_list(F.when(F.col("passed"), F.col("packed")))).alias("admitted"),
            F.sort_array(F.collect_list(F.when(~F.col("passed"), F.col("packed")))).alias("limited"),
            F.max("window_ms").alias("window_ms"),
        )
    )
    number = F.shiftright("key", _CHUNK_BITS)
    return found.select(
        F.shiftright(number, 1).cast("int").alias("lane"),
        F.when(number % 2 == 1, "log").otherwise("clients").alias("source"),
        (F.col("key") % (1 << _CHUNK_BITS)).alias("chunk"),
        "admitted",
        "limited",
        "window_ms",
    )


def time_us(row: Column) -> Column:
    """When a row of a chunk came, from the chunk's start."""
    return F.shiftright(row, AMOUNT_BITS)


def amount(row: Column) -> Column:
    """How much a row of a chunk is."""
    return row.bitwiseAND(F.lit(_AMOUNT_MASK))
