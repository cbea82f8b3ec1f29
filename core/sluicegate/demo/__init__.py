"""The demo: real clients run into every policy, and what they saw is held against what the policy says.

What a broker room needs to take part is in `sluicegate.demo.scene`; the rest is in modules of its own, so
that a room does not import the gateway by it.
"""

from sluicegate.demo.clients import DemoClient
from sluicegate.demo.scene import (
    Backend,
    BrokerDemo,
    Observation,
    OwnGate,
    Scene,
    Seen,
    Stage,
    Verdict,
)

__all__ = [
    "Backend",
    "BrokerDemo",
    "DemoClient",
    "Observation",
    "OwnGate",
    "Scene",
    "Seen",
    "Stage",
    "Verdict",
]
