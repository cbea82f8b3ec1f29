"""The systems' own policies, without a gateway."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors import native_kafka, native_pulsar
from sluicegate_reports.runner.doors.base import Arm, Broker, Setting, Way, straight


def _real(setting: Setting) -> Broker:
    broker = setting.broker
    if broker is None or broker.embedded:
        what = broker.label if broker is not None else "the stand-in"
        raise UnavailableError(f"{what} has no policies of its own")
    return broker


@asynccontextmanager
async def _kafka(setting: Setting) -> AsyncIterator[Way]:
    broker = _real(setting)
    await native_kafka.set_quotas(broker, setting)
    yield Way(broker.addresses, options={"client_id": "topic"})


@asynccontextmanager
async def _strimzi(setting: Setting) -> AsyncIterator[Way]:
    broker = _real(setting)
    yield Way(broker.addresses)


@asynccontextmanager
async def _pulsar(setting: Setting) -> AsyncIterator[Way]:
    broker = _real(setting)
    if not broker.admin:
        raise UnavailableError(
            "its policies are set by its admin API, whose address is not known: "
            "give 'admin' or --pulsar-admin"
        )
    await native_pulsar.set_policies(broker.admin, setting)
    yield Way(broker.addresses)


_danube = straight(
    "no registry serves the real Danube; what policies within a broker do is shown by the reference broker "
    "with the interceptor"
)

ARMS = (
    Arm(
        "kafka",
        "native",
        "kafka",
        _kafka,
        label="client quotas, nearest",
        broker="kafka",
        judged=native_kafka.JUDGED,
    ),
    Arm(
        "kafka-strimzi",
        "native",
        "kafka",
        _strimzi,
        label="Strimzi plug-in, nearest",
        broker="kafka-strimzi",
        judged=native_kafka.STRIMZI_JUDGED,
    ),
    Arm("pulsar", "native", "pulsar", _pulsar, broker="pulsar", judged=native_pulsar.JUDGED),
    Arm("danube", "native", "danube", _danube, label=REFERENCE_LABEL),
)
