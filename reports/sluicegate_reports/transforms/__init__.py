"""Transforms: plain functions, one idea per file, without Spark actions.

All works topic by topic, on what `packed` brings together. The way of the rates:
decisions and observations become `flows` (one entry for each thing that was admitted or not), flows become
`slots` (sums of 100 ms or 1 s) and `requests`. Of these come the `moments` when something was admitted, and
by them the `law` judges: `excess` above it, `shortfall` below.
"""
