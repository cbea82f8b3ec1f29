"""Comparison runs, Spark jobs over them and over the decision log, and the report."""
