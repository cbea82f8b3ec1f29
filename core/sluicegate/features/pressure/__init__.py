"""Pressure sources that work with any broker: memory of processes, and metrics over HTTP."""
