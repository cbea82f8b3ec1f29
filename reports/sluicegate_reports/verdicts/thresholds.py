"""Bounds of the verdicts: docs/reports.md says what each is compared with."""

WINDOW_S = 20
"""Length of the windows that rates are measured over: long enough that a second's burst does not hide in the
mean, short enough that no one has to wait; the benchmarks use it too."""
EXACT_SHARE = 0.005
"""Of the rate: starting, stopping and scheduling clients changes a 20 s window by less than this, so a
smaller error cannot be told from an exact limiter."""
WITHIN_SHARE = 0.05
"""Of the rate: what operators take for kept, and what a limiter that counts by seconds stays within."""
EARLY_MS = 1.0
"""Brokers stamp messages in whole milliseconds and clients in microseconds, so up to one is no earliness."""
EXACT_LATE_MS = 250.0
"""p99 of a delayed delivery: brokers look for what is due in ticks of up to 100 ms, twice on the way."""
WITHIN_LATE_MS = 1_000.0
"""Brokers' default tick for delayed delivery is one second."""
STALL_S = 2.0
"""Longest standstill of clients that explains a burst after it, if no log shows what was in transit."""
TRANSIT_S = 4.0
"""So many seconds of the rate, at most, may have been on their way to clients; of more the log is doubted."""
IDLE_S = 1.0
"""A subscription to which nothing comes for this long, and for three times its mean gap, has all it gets."""
WITHIN_DELIVERIES = 0.001
"""Of the messages: what protocols that deliver at least once may repeat or reorder, on a reconnect."""
