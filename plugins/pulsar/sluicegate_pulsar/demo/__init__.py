"""Pulsar's part of `sluicegate demo`; needs the extra `pulsar`."""
