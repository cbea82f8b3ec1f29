"""Transforms: plain functions from DataFrame to DataFrame, one idea per file, without Spark actions.

The way of the rates: decisions and observations become `flows` (one row for each thing that was admitted or
not), flows become `slots` (sums of 100 ms or 1 s), and all small figures are made of slots. Only overshoot,
the first second and the refusals need each single flow.
"""
