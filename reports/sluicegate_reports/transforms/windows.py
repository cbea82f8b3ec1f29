"""Rates over windows: what each second admitted, and how far windows are from the limit."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_SETTLED_S = 2.0
"""Seconds from a lane's start after which a full bucket of one second is taken to be spent, where nothing
tells: enough for clients that ask for half as much again as the limit."""

_LAG = ("behind", "after", "most_behind")


def per_second(slots: DataFrame, width_us: int) -> DataFrame:
    """What each second of a lane admitted, was asked for and limited, all clients together.

    :param slots: see `slots.by_client`.
    :param width_us: of these slots; a divisor of a second.
    :return: `lane`, `source`, `second`, `admitted`, `offered`, `limited`.
    """
    second = F.floor(F.col("slot") * width_us / 1_000_000).cast("int").alias("second")
    return slots.groupBy("lane", "source", second).agg(
        F.sum("admitted").alias("admitted"),
        F.sum("offered").alias("offered"),
        F.sum("limited").alias("limited"),
    )


def rate_error(
    slots: DataFrame,
    lanes: DataFrame,
    width_us: int,
    window_s: int,
    pressure: DataFrame | None = None,
    lag: DataFrame | None = None,
) -> DataFrame:
    """The windows that are furthest from the rate, among all of one length, each a slot after the one before.

    Windows begin when the burst is spent: after the slot in which something was limited for the first time,
    as the source tells, or else the other one.
    They end with the lane. Slots in which nothing happened count as 0.

    A window counts for `below` if its clients were under pressure for half of it. It is then compared with
    what they could have got: what a full bucket lost while they were not, and what was left in it for them at
    the window's end, is no error of the gateway's.

    :param slots: see `slots.by_client`.
    :param lanes: see `lanes.lanes`.
    :param width_us: of these slots; a divisor of a second.
    :param window_s: length of a window in s.
    :param pressure: see `pressure.pressure`; without it clients are taken to have always asked for more.
    :param lag: see `lag.lag`; without it clients are taken to have seen everything at once.
    :return: `lane`, `source`, `windows` (how many), `above`, `below` (largest and smallest relative error,
        0.01 for one percent; `below` is of the windows under pressure, null if there is none),
        `above_net` and `below_net` (likewise, less the one operation that each window may have cut, and less
        what the clients caught up with in it, or fell behind), `above_burst` (the former of all windows from
        the lane's start on, less a full bucket or such an operation),
        `pressed` (windows under pressure), `unused` (largest share of such a window that its clients did
        not ask for), `largest` (amount admitted at once). A lane shorter than a window has no row.
    """
    length = window_s * 1_000_000 // width_us
    filled = _filled(slots, lanes, width_us)
    if pressure is None:
        filled = filled.withColumn("pressed", F.lit(True)).withColumn("idle_us", F.lit(0))
    else:
        filled = filled.join(pressure, on=["lane", "slot"], how="left").na.fill(False, ["pressed"])
    filled = _lagging(filled, lag)
    return _furthest(_ending(_unused(filled, width_us), length, window_s))


def _ending(filled: DataFrame, length: int, window_s: int) -> DataFrame:
    """The window that ends with each slot, and its errors; see `rate_error`."""
    lane = Window.partitionBy("lane", "source").orderBy("slot")
    window = lane.rowsBetween(1 - length, 0)
    begins = F.col("slot") - length + 1
    total, of_window = F.sum("admitted").over(window), F.col("rate") * window_s
    unused = F.sum("spilt").over(window) + F.col("left")
    # Null where that is nothing: such a window is compared with nothing.
    could = F.when(unused < of_window, of_window - unused)
    # A window may begin or end in the middle of one operation: of one within it, or of the next.
    ends = F.max("largest").over(window)
    cut = F.coalesce(F.max("largest").over(lane.rowsBetween(1 - length, length)), F.lit(0))
    caught_up = F.first("behind").over(window) - F.col("after")
    caught_up = F.greatest(F.least(caught_up, "most_behind"), -F.col("most_behind"))
    seen_late, seen_later = F.greatest(caught_up, F.lit(0.0)), F.greatest(-caught_up, F.lit(0.0))
    under = 2 * F.sum(F.col("pressed").cast("int")).over(window) >= length
    return filled.select(
        "lane",
        "source",
        "largest",
        (begins >= F.col("steady")).alias("steady"),
        (total / of_window - 1).alias("error"),
        ((total - F.coalesce(ends, F.lit(0)) - seen_late) / of_window - 1).alias("less"),
        (total / could - 1).alias("short"),
        ((total + cut + seen_later) / could - 1).alias("more"),
        (unused / of_window).alias("unused"),
        ((total - F.greatest("burst", ends) - seen_late) / of_window - 1).alias("beyond"),
        under.alias("under"),
        begins.alias("begins"),
    ).where(F.col("begins") >= 0)


def _furthest(windows: DataFrame) -> DataFrame:
    """The figures of each lane out of its windows; see `rate_error`."""
    under = F.col("under") & F.col("steady")
    return windows.groupBy("lane", "source").agg(
        F.count(F.when(F.col("steady"), 1)).alias("windows"),
        F.max(F.when(F.col("steady"), F.col("error"))).alias("above"),
        F.min(F.when(under, F.col("short"))).alias("below"),
        F.max(F.when(F.col("steady"), F.col("less"))).alias("above_net"),
        F.max("beyond").alias("above_burst"),
        F.min(F.when(under, F.col("more"))).alias("below_net"),
        F.count(F.when(under, 1)).alias("pressed"),
        F.max(F.when(under, F.col("unused"))).alias("unused"),
        F.max("largest").alias("largest"),
    )


def _filled(slots: DataFrame, lanes: DataFrame, width_us: int) -> DataFrame:
    """Every slot of each lane, with the slot from which the rate alone counts."""
    sums = slots.groupBy("lane", "source", "slot").agg(
        F.sum("admitted").alias("admitted"),
        F.max("largest").alias("largest"),
        F.min("first_us").alias("first_us"),
    )
    starts = slots.groupBy("lane", "source").agg(
        F.min(F.when(F.col("limited") > 0, F.col("slot"))).alias("limited_slot")
    )
    # Clients that are held see no refusal: the log tells when the burst was spent.
    first = F.coalesce("limited_slot", F.min("limited_slot").over(Window.partitionBy("lane")))
    starts = starts.withColumn("limited_slot", first)
    last = F.floor((F.col("end_us") - F.col("begin_us")) / width_us).cast("int") - 1
    every = (
        starts.join(F.broadcast(lanes), on="lane", how="inner")
        .where(last >= 0)
        .select(
            "lane",
            "source",
            "rate",
            "burst",
            _steady(width_us).alias("steady"),
            F.explode(F.sequence(F.lit(0), last)).alias("slot"),
        )
    )
    return every.join(sums, on=["lane", "source", "slot"], how="left").na.fill(0, ["admitted"])


def _lagging(filled: DataFrame, lag: DataFrame | None) -> DataFrame:
    """Each slot with what clients had yet to see, of which a log knows nothing."""
    if lag is None:
        return filled.withColumns(dict.fromkeys(_LAG, F.lit(0.0)))
    of_clients = lag.select(F.lit("clients").alias("source"), "lane", "slot", *_LAG)
    return filled.join(of_clients, on=["lane", "source", "slot"], how="left").na.fill(0, list(_LAG))


def _unused(filled: DataFrame, width_us: int) -> DataFrame:
    """Each slot with what clients let go by: `spilt` from a full bucket, and `left` in it at the slot's end.

    A bucket that is empty when the rate alone begins to count, and is then charged with what was admitted,
    has lost up to any moment the most by which rate x time was ahead of that sum by then, less what it holds.
    """
    lane = Window.partitionBy("lane", "source").orderBy("slot")
    so_far = lane.rowsBetween(Window.unboundedPreceding, 0)
    steady, begin_us = F.col("slot") >= F.col("steady"), F.col("steady") * width_us
    own = F.when(steady, F.col("admitted")).otherwise(0.0)
    up_to = F.sum(own).over(so_far)
    at_end = F.col("rate") * ((F.col("slot") + 1) * width_us - begin_us) / 1e6 - up_to
    # It is fullest at the end of a slot, or just before something is admitted in it.
    at_first = F.col("rate") * (F.col("first_us") - begin_us) / 1e6 - (up_to - own)
    fullest = F.greatest(at_end, F.coalesce(at_first, at_end)) - F.col("burst")
    lost = F.greatest(F.coalesce(F.max(F.when(steady, fullest)).over(so_far), F.lit(0.0)), F.lit(0.0))
    now = F.col("lost") - F.coalesce(F.lag("lost").over(lane), F.lit(0.0))
    since = F.col("rate") * F.col("idle_us") / 1e6
    return (
        filled.withColumn("lost", lost)
        .withColumn("spilt", F.when(F.col("pressed"), 0.0).otherwise(now))
        .withColumn("left", F.greatest(F.least(at_end - F.col("lost"), since), F.lit(0.0)))
    )


def _steady(width_us: int) -> Column:
    settled_us = _SETTLED_S * 1_000_000 * F.col("burst") / F.col("rate")
    return F.coalesce(F.col("limited_slot") + 1, F.ceil(settled_us / width_us)).cast("int")
