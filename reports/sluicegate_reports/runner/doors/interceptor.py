"""The interceptor: a broker that applies the policies in its own server. Only gRPC allows this."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Setting, Way, lacking
from sluicegate_reports.runner.doors.gate import hosted, order_of, write_file


@asynccontextmanager
async def _danube(setting: Setting) -> AsyncIterator[Way]:
    file = setting.directory / "gateway.yaml"
    entry = {
        "name": "compare",
        "system": "danube",
        "bootstrap": ["127.0.0.1:1"],  # nothing is dialled: the policies are in the broker itself
        "listen": {"port": 0},
        "max_hold": setting.loaded.scenario.max_hold,
    }
    write_file(file, entry, setting.loaded.policies, setting.directory / "state")
    notes: list[str] = []
    async with hosted("broker", order_of(setting, "danube", file), setting.directory, notes) as (
        process,
        ready,
    ):
        judged = lacking("danube", setting.arm.door)
        yield Way((ready["address"],), judged=judged, process=process, notes=notes)


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
