"""The configuration file: models, units, and errors that say where and what to write instead."""

from sluicegate.config.models import BrokerConfig, GatewayConfig, Listen, PolicyModel
from sluicegate.config.units import (
    ByteRate,
    Count,
    Delay,
    Duration,
    HostPort,
    MessageRate,
    Seconds,
    Size,
)

__all__ = [
    "GatewayConfig",
    "BrokerConfig",
    "Listen",
    "PolicyModel",
    "ByteRate",
    "Count",
    "Delay",
    "Duration",
    "HostPort",
    "MessageRate",
    "Seconds",
    "Size",
]
