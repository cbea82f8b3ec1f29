"""Metrics in Prometheus' format and health checks, served by the supervisor."""
