"""Stock clients behind one interface: one module for each library."""

from sluicegate_reports.runner.clients.base import (
    ClientDriver,
    Delivery,
    DrivenConsumer,
    DrivenProducer,
    FailedError,
    RefusedError,
)
from sluicegate_reports.runner.clients.registry import driver, label

__all__ = [
    "ClientDriver",
    "Delivery",
    "DrivenConsumer",
    "DrivenProducer",
    "FailedError",
    "RefusedError",
    "driver",
    "label",
]
