"""Starts real brokers, for comparison runs, benchmarks and tests."""
