"""Clients that produce while the gateway is replaced, or reads its file again, many times."""

import itertools
import socket
from contextlib import ExitStack, suppress
from functools import partial

from benchmarks.harness.arms import Bench
from benchmarks.harness.clients import create_topic
from benchmarks.harness.gateway import Gateway, knocking, wait
from benchmarks.harness.kafka_bytes import answer, connect
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.numbered import NumberedProducer, account, sending, stored
from benchmarks.harness.scenario import Scenario

_POLICIES = {"broker": {"max_publish_rate": 500, "max_producers_per_topic": 10}}
"""A rate that both producers are held to, so that requests are held when a gateway ends."""
_sending = partial(sending, producers=2, record_bytes=200)
_WARM_UP = 50
"""Reloads before memory is looked at."""
_CHANGED = "sluicegate_policy_changes_total"
_FAILED = "sluicegate_config_reloads_failed_total"
_IDLE = 20
_rounds = itertools.count(1)


def goes_on(senders: list[NumberedProducer], more: int = 20) -> None:
    """Wait until each producer has got so many acknowledgements more."""
    wanted = [len(each.acked) + more for each in senders]
    wait(
        lambda: all(len(each.acked) >= count for each, count in zip(senders, wanted, strict=True)),
        "not every producer goes on",
    )


def _rolling(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    topic, count = f"rolling-{next(_rounds)}", 3 if quick else 50
    source = bench.broker.bootstrap
    create_topic(source, topic)
    with ExitStack() as stack:
        gateway = Gateway(stack, bench.directory / topic, source, _POLICIES)
        with (
            knocking(gateway.port) as knocks,
            _sending(gateway.address, topic, pause_s=0.001) as senders,
        ):
            for _ in range(count):
                gateway.replace()
                goes_on(senders)
        values = account(senders, stored(source, topic))
    return values | {
        "restarts": float(count),
        "connections": float(knocks.connected),
        "refused_connections": float(len(knocks.refused)),
    }


def _reloads(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    topic, count = f"reloads-{next(_rounds)}", 60 if quick else 1_000
    source = bench.broker.bootstrap
    create_topic(source, topic)
    with ExitStack() as stack:
        gateway = Gateway(stack, bench.directory / topic, source, _POLICIES)
        idle = [connect(stack, f"127.0.0.1:{gateway.port}") for _ in range(_IDLE)]
        with _sending(gateway.address, topic, pause_s=0.01) as senders:
            _ask(idle)
            for number in range(_WARM_UP):
                _reload(gateway, number)
            before = gateway.resident_bytes()
            for number in range(_WARM_UP, count):
                if number % _WARM_UP == 0:
                    _ask(idle)
                _reload(gateway, number)
            grown = gateway.resident_bytes() - before
            goes_on(senders)
        values = account(senders, stored(source, topic))
        dropped = sum(_is_closed(client) for client in idle)
    return values | {
        "reloads": float(count),
        "dropped_connections": float(dropped),
        "grown_mib": grown / 2**20,
    }


def _reload(gateway: Gateway, number: int) -> None:
    """Have a changed file read; every fifth is broken."""
    is_broken = number % 5 == 4
    metric = _FAILED if is_broken else _CHANGED
    before = gateway.metrics().get(metric, 0.0)
    size = {"max_message_size": 10_000 + number}
    gateway.write(None if is_broken else {"broker": _POLICIES["broker"] | size})
    gateway.reload()
    wait(lambda: gateway.metrics().get(metric, 0.0) > before, f"reload {number} did not happen")


def _ask(clients: list[socket.socket]) -> None:
    """Have clients ask something, so that none is closed for silence; one that was is found at the end."""
    for client in clients:
        with suppress(OSError, RuntimeError):
            answer(client)


def _is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


SCENARIOS = (
    Scenario(
        "rolling-restarts",
        "50 new gateways take over one from the other while two producers send and clients connect",
        (SLUICEGATE,),
        _rolling,
        rounds=1,
        cold_round=False,
    ),
    Scenario(
        "reloads",
        "1,000 changes of the file, 200 of them broken, while two producers send",
        (SLUICEGATE,),
        _reloads,
        rounds=1,
        cold_round=False,
    ),
)
