"""Clients that produce while the broker, the worker or the supervisor is killed, again and again."""

import itertools
from contextlib import ExitStack
from functools import partial

from benchmarks.harness.arms import Bench
from benchmarks.harness.clients import create_topic
from benchmarks.harness.gateway import Gateway, knocking
from benchmarks.harness.names import DIRECT, SLUICEGATE
from benchmarks.harness.numbered import account, sending, stored
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario
from benchmarks.scenarios.restarts import goes_on
from sluicegate_reports.runner.brokers.kafka import KafkaNode

_POLICIES = {"broker": {"max_producers_per_topic": 10, "max_publish_rate": 100_000}}
_sending = partial(sending, producers=2, record_bytes=200)
_PAUSE_S = 0.005
_rounds = itertools.count(1)


def _kill_broker(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    topic, count = f"broker-{next(_rounds)}", 2 if quick else 20
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaNode(bench.directory / f"{topic}-node"))
        create_topic(broker.bootstrap, topic)
        address = broker.bootstrap
        if name == SLUICEGATE:
            address = Gateway(stack, bench.directory / topic, address, _POLICIES).address
        with _sending(address, topic, pause_s=_PAUSE_S) as senders:
            for _ in range(count):
                broker.kill()
                broker.start()
                goes_on(senders)
        return account(senders, stored(broker.bootstrap, topic)) | {"kills": float(count)}


def _kill_gateway(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    topic, count = f"gateway-{next(_rounds)}", 2 if quick else 20
    source = bench.broker.bootstrap
    create_topic(source, topic)
    back: list[float] = []
    with ExitStack() as stack:
        gateway = Gateway(stack, bench.directory / topic, source, _POLICIES)
        with (
            knocking(gateway.port) as knocks,
            _sending(gateway.address, topic, pause_s=_PAUSE_S) as senders,
        ):
            for _ in range(count):
                back.append(gateway.kill_worker())
                goes_on(senders)
                gateway.kill_supervisor()
                goes_on(senders)
        values = account(senders, stored(source, topic))
    return values | {
        "kills": float(count),
        "refused_connections": float(len(knocks.refused)),
        "worker_back_median_s": percentile(back, 0.5),
        "worker_back_longest_s": max(back),
    }


SCENARIOS = (
    Scenario(
        "kill-broker",
        "kill -9 of the broker, 20 times, while two producers send",
        (DIRECT, SLUICEGATE),
        _kill_broker,
        rounds=1,
        cold_round=False,
    ),
    Scenario(
        "kill-gateway",
        "kill -9 of the worker and of the supervisor by turns, 20 times each, while two producers send",
        (SLUICEGATE,),
        _kill_gateway,
        rounds=1,
        cold_round=False,
    ),
)
