"""Pulsar's part of `sluicegate demo`; needs the extra `pulsar`."""

from sluicegate_pulsar.demo.show import PulsarDemo

__all__ = ["PulsarDemo"]
