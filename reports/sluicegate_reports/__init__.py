"""Spark jobs and reports over the decision log: not built yet."""
