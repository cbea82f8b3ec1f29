"""The web listener: the cluster's admin API with fixed delivery delays, and lookups that lead to the gate.

Everything else passes as it came. It runs in the supervisor, off the relays' event loops.
"""

from sluicegate_pulsar.web.site import PulsarSite

__all__ = ["PulsarSite"]
