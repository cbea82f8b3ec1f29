"""Commands that Pulsar's users know: `sluicegate topics` and `sluicegate namespaces`."""

from sluicegate_pulsar.commands.delayed import groups

__all__ = ["groups"]
