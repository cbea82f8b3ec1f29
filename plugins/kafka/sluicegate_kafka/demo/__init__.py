"""Kafka's part of `sluicegate demo`; needs the extra `kafka`."""
