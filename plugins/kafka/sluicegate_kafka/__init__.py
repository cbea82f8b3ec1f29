"""Sluicegate in front of Apache Kafka."""
