"""Sluicegate in front of Apache Pulsar: not built yet."""
