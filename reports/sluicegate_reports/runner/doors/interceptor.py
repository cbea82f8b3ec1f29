"""The interceptor: a broker that applies the policies in its own server. Only gRPC allows this."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.runner.doors.base import Arm, Setting, Way, straight
from sluicegate_reports.runner.doors.gate import gated


@asynccontextmanager
async def _danube(setting: Setting) -> AsyncIterator[Way]:
    # Nothing is dialled and nothing listens: the policies are in the broker itself.
    entry = {"bootstrap": ["127.0.0.1:1"]}
    async with gated(setting, "danube", entry) as way:
        yield way


def _none(system: str) -> Arm:
    why = f"{system} is no gRPC service, so nothing can be put into its calls"
    return Arm(system, "interceptor", system, straight(why), asked_only=True)


ARMS = (
    Arm("danube", "interceptor", "danube", _danube, label=REFERENCE_LABEL),
    _none("kafka"),
    _none("pulsar"),
)
