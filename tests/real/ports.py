"""Ports for servers under test."""

from sluicegate.demo.ports import free_ports as free_run

__all__ = ["free_ports", "free_run"]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now and that need not be neighbours."""
    return [free_run(1) for _ in range(count)]
