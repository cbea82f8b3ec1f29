"""The interceptor: a broker that applies the policies in its own server. Only gRPC allows this."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Setting, Way
from sluicegate_reports.runner.doors.gate import gated


@asynccontextmanager
async def _danube(setting: Setting) -> AsyncIterator[Way]:
    # Nothing is dialled and nothing listens: the policies are in the broker itself.
    entry = {"bootstrap": ["127.0.0.1:1"], "listen": {"port": 0}}
    async with gated(setting, "danube", entry) as way:
        yield way


@asynccontextmanager
async def _none(setting: Setting) -> AsyncIterator[Way]:
    if setting.broker is None:
        raise UnavailableError(
            f"{setting.arm.client} is no gRPC service, so nothing can be put into its calls"
        )
    yield Way(setting.broker.addresses)


ARMS = (
    Arm("danube", "interceptor", "danube", _danube, label=REFERENCE_LABEL),
    Arm("kafka", "interceptor", "kafka", _none, asked_only=True),
    Arm("pulsar", "interceptor", "pulsar", _none, asked_only=True),
)
