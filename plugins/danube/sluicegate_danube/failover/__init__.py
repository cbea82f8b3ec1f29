"""Failover of a Danube cluster: topics of a dead broker move to live ones, and no durable metadata is touched."""
