"""Bounds of the verdicts: docs/reports.md says what each is compared with."""

EXACT_SHARE = 0.005
"""Of rate and burst: the clocks of two machines, and the scheduling of clients, change as much."""
WITHIN_SHARE = 0.05
"""Of rate and burst: what operators take for kept."""
EARLY_MS = 1.0
"""Brokers stamp messages in whole milliseconds and clients in microseconds, so up to one is no earliness."""
EXACT_LATE_MS = 250.0
"""p99 of a delayed delivery: brokers look for what is due in ticks of up to 100 ms, twice on the way."""
WITHIN_LATE_MS = 1_000.0
"""Brokers' default tick for delayed delivery is one second."""
STALL_S = 2.0
"""Longest standstill of clients that explains a burst after it, if no log shows what was in transit."""
TRANSIT_S = 4.0
"""Longest time that something may have been on its way to clients; beyond it the log is doubted."""
IDLE_S = 1.0
"""A subscription to which nothing comes for this long, and for three times its mean gap, has all it gets."""
WITHIN_DELIVERIES = 0.001
"""Of the messages: what protocols that deliver at least once may repeat or reorder, on a reconnect."""
