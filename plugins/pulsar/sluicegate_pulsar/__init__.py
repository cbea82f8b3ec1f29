"""Sluicegate in front of Apache Pulsar."""
