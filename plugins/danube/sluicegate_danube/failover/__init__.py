"""Failover of a Danube cluster: topics of a dead broker move to live ones, durable metadata stays."""
