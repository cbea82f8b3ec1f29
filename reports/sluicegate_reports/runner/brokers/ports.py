"""Ports for brokers and proxies."""

from sluicegate.demo.ports import free_ports

__all__ = ["free_port", "free_ports"]


def free_port() -> int:
    """One free port."""
    return free_ports(1)
