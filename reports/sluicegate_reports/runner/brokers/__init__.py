"""Real brokers, started here: for comparison runs, and for benchmarks and tests."""
