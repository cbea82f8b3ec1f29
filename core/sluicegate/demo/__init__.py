"""The demo: real clients exceed every policy, and their observations are compared with the policy.

`sluicegate.demo.scene` has the interface for broker rooms. It does not import the gateway.
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
