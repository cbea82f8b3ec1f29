"""Commands that Pulsar's users know: `sluicegate topics` and `sluicegate namespaces`."""
