"""Benchmarks: run them with `python benchmarks/run.py`."""
