"""The messages whose walks are recorded. Each is the second or a later one of its kind on a warm connection:
its gate is compiled, its producer attached."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import orjson
from tests.bench import SECOND, START
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import PUBLISH, TOPIC, Talk, front
from tests.kafka.session import messages as kafka
from tests.kafka.session.wire import Bench as KafkaBench
from tests.kafka.session.wire import Wire as KafkaWire
from tests.pulsar.session import messages as pulsar
from tests.pulsar.session.wire import Bench as PulsarBench
from tests.pulsar.session.wire import Wire as PulsarWire
from tests.walk.recording import Walk, record

from sluicegate.broker import BaseSession, Command, ToUpstream, WakeAt
from sluicegate.config.load import load
from sluicegate.engine.gate import Gate
from sluicegate.processes.messages import encode, policies_from_json
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.plugins import load_plugins
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.testing import NullSink

Walks: TypeAlias = Mapping[str, Walk]
"""Walks of one case by name. What is held has one until it is held, one from its wake-up to the bytes for the
broker, and both in one."""

_FILE = """brokers:
- name: main
  system: kafka
  bootstrap: ["127.0.0.1:9092"]
  listen: {{port: 19000}}
state_dir: {directory}
policies:
  broker:
    max_publish_rate: {rate}
"""


def _until_held(session: BaseSession, data: bytes, now_ns: int) -> tuple[Walk, int]:
    """Walk from a session's feed to the command to wait; returns when it is to be woken, too."""
    walk, commands = record(lambda: session.receive_client(data, now_ns))
    assert not _goes_on(commands), commands
    [at_ns] = [command.at_ns for command in commands if isinstance(command, WakeAt)]
    return walk, at_ns


def _until_forwarded(session: BaseSession, at_ns: int) -> Walk:
    """Walk from the wake-up of what is held to the bytes for the broker."""
    walk, commands = record(lambda: session.wake(at_ns, client_gone=False))
    assert _goes_on(commands), commands
    return walk


def _goes_on(commands: Sequence[Command]) -> bool:
    """Whether a message goes to the broker; a window update or an acknowledgement is none."""
    return any(isinstance(command, ToUpstream) and len(command.data) > 20 for command in commands)


def _held(session: BaseSession, data: bytes, now_ns: int) -> Walks:
    held, at_ns = _until_held(session, data, now_ns)
    forwarded = _until_forwarded(session, at_ns)
    return {"held": held, "forwarded": forwarded, "both": held + forwarded}


def kafka_held() -> Walks:
    """A Produce that a rate holds, and that goes on when its time has come."""
    wire = KafkaWire(KafkaBench(max_publish_rate=1))
    sent = [kafka.produce({"t": kafka.batch(b"x")}, correlation_id=number) for number in (1, 2)]
    wire.client_sends(sent[0])
    wire.broker_sends(kafka.produced("t", correlation_id=1))
    return _held(wire.session, sent[1], wire.now)


def pulsar_delay() -> Walks:
    """A SEND whose time of delivery the gate writes."""
    published_ms = 1_800_000_000_000
    bench = PulsarBench(fixed_delivery_delay=1_500)
    wire = PulsarWire(bench)
    bench.wall_clock.offset_ns = published_ms * 1_000_000 - START
    wire.client_sends(pulsar.producer())
    wire.broker_sends(pulsar.producer_success())
    wire.client_sends(pulsar.send(0, publish_time=published_ms))
    wire.broker_sends(pulsar.receipt(0))
    data = pulsar.send(1, publish_time=published_ms)
    walk, commands = record(lambda: wire.session.receive_client(data, wire.now))
    assert _goes_on(commands), commands
    assert data not in [command.data for command in commands if isinstance(command, ToUpstream)]
    return {"delay": walk}


def grpc_held() -> Walks:
    """A unary publish that a rate holds, and that goes on when its time has come."""
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.answer(talk.publish(), b"")
    talk.wire.pass_time(5 * SECOND)
    talk.answer(talk.publish(), b"")
    h2 = talk.wire.client.h2
    h2.data_to_send()
    stream = int(h2.get_next_available_stream_id())
    h2.send_headers(stream, service.request(PUBLISH))
    h2.send_data(stream, service.publish(TOPIC, 7, b"x" * 10), end_stream=True)
    return _held(talk.session, h2.data_to_send(), talk.wire.now)


def policy_line() -> Walks:
    """A changed line of the file, from the look at the file to the gate that is compiled of it."""
    with TemporaryDirectory() as directory, _following(Path(directory)) as change:
        change(10)
        _, before = record(lambda: change(20))
        walk, after = record(lambda: change(30))
    rates = [gate.policies.number("max_publish_rate") for gate in (before, after)]
    assert rates == [20, 30]
    return {"reload": walk}


@contextmanager
def _following(directory: Path) -> Iterator[Callable[[int], Gate]]:
    """A supervisor's watch and a worker's engine; gives what changes the file's rate and gets the gate."""
    path = directory / "gateway.yaml"
    path.write_text(_FILE.format(directory=directory, rate=1))
    plugins = load_plugins(())
    loaded = load(path, plugins.policy_models, plugins.broker_models, {})
    watch = PolicyWatch(path, loaded, plugins, {})
    [entry] = loaded.config.brokers
    facts = Facts({}, lambda key, value: None)
    host = EngineHost(
        entry, plugins, watch.policies("main"), NullSink(), apply=lambda call: call(), facts=facts
    )

    def change(rate: int) -> Gate:
        path.write_text(_FILE.format(directory=directory, rate=rate))
        assert watch.check()
        sent = encode("policies", policies=watch.policies("main"))
        host.replace(policies_from_json(orjson.loads(sent)["policies"]))
        return host.gates.get("orders", False, START)

    try:
        yield change
    finally:
        watch.close()


CASES: Mapping[str, Callable[[], Walks]] = {
    "kafka": kafka_held,
    "pulsar": pulsar_delay,
    "grpc": grpc_held,
    "policy": policy_line,
}
