"""Spark and the files that it reads: sessions, logs in any state, compacted logs."""
