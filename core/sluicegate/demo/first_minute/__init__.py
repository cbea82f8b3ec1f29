"""The first minute of the demo: a noisy producer ruins its neighbour's latency until a command limits it."""
