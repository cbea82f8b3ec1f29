"""Hostile, broken and silent peers at a gateway that serves other clients at the same time.

Each is closed or answered alone, with a log line and a counter; memory stays bounded; others notice nothing.
"""

import datetime
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.raw import RawClient, call
from tests.kafka.real.support.steady import SteadyProducer
from tests.kafka.real.support.upstream import MoodyUpstream
from tests.kafka.session.messages import batch, produce
from tests.waiting import LONG_S

_FRAME_S, _IDLE_S = 2, 3
_VERSIONS = call("api_versions", 3, client_software_name="raw", client_software_version="1")
_MIB = 1 << 20


@pytest.fixture(scope="module")
def upstream(kafka: KafkaBroker) -> Iterator[MoodyUpstream]:
    """The bootstrap address of the gateway; the node's own port leads to the broker itself."""
    with MoodyUpstream(kafka.bootstrap) as upstream:
        yield upstream


@contextmanager
def reading_all(directory: Path, upstream: MoodyUpstream, **broker: str) -> Iterator[Gate]:
    """A gateway with policies that make it read everything."""
    policies = {"max_producers_per_topic": 100, "max_publish_rate": "1000k/s", "max_dispatch_rate": "1000k/s"}
    with Gate(directory, upstream.bootstrap, policies, broker) as gate:
        gate.eventually(lambda: "listener='node-1'" in gate.output(), "the node is listened for")
        yield gate


@pytest.fixture(scope="module")
def patient(upstream: MoodyUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway with the default time-outs, which closes no slow client."""
    with reading_all(tmp_path_factory.mktemp("patient"), upstream) as gate:
        yield gate


@pytest.fixture(scope="module")
def hasty(upstream: MoodyUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """With time-outs so short that a busy machine exceeds them, too."""
    times = {"frame_timeout": f"{_FRAME_S}s", "idle_timeout": f"{_IDLE_S}s"}
    with reading_all(tmp_path_factory.mktemp("hasty"), upstream, **times) as gate:
        yield gate


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Gate:
    """The patient one, unless the test uses the hasty one."""
    found: Gate = request.getfixturevalue("hasty" if "hasty" in request.fixturenames else "patient")
    return found


@pytest.fixture(autouse=True)
def other(gate: Gate, kafka: KafkaBroker, new_topic: NewTopic) -> Iterator[SteadyProducer]:
    """Another client, at work during the test: it must not notice."""
    topic = new_topic("other")
    with SteadyProducer(gate.bootstrap, topic, "other") as other:
        yield other
        other.goes_on(20)
        AdminClient({"bootstrap.servers": gate.bootstrap}).list_topics(timeout=LONG_S)
    assert not other.log.errored
    judge(other.log, read_topic(kafka.bootstrap, topic)).assert_clean()


def node(gate: Gate) -> str:
    """The gateway's address of the one node."""
    return f"127.0.0.1:{gate.port + 2}"


def closes(gate: Gate, reason: str) -> float:
    """How many connections were closed for a reason."""
    return gate.metric("sluicegate_session_closes_total", reason=reason)


def worker(gate: Gate) -> psutil.Process:
    """The process that serves clients."""
    return next(p for p in gate.processes()[1:] if "sluicegate.processes.worker_main" in p.cmdline())


# -- from clients -------------------------------------------------------------------------------------


def head(api_key: int, version: int) -> bytes:
    """The head of a request, without its length: correlation id 1, client id `bad`."""
    return struct.pack(">hhih", api_key, version, 1, 3) + b"bad"


def framed(body: bytes, length: int | None = None) -> bytes:
    """A frame, which may lie about its length."""
    return struct.pack(">i", len(body) if length is None else length) + body


_PRODUCE = produce({"any": batch(b"x" * 100)})
_LYING = b"\0\0\xff\xff\0\0\x75\x30" + struct.pack(">i", 2**30)
"""Produce 8 after its head: no transaction, acks -1, 30 s, and a billion topics."""

BAD: dict[str, tuple[bytes, str]] = {
    "length 0": (framed(head(3, 12), 0), "request of length 0"),
    "length -1": (framed(head(3, 12), -1), "request of length -1"),
    "length 2 GiB": (framed(head(3, 12), 2**31 - 1), "request of length 2147483647"),
    "TLS hello": (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 600,
        "a TLS hello on a plain listener",
    ),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "request of length 1195725856"),
    "truncated Produce": (framed(_PRODUCE[4:60]), ""),
    "lying array": (framed(head(0, 8) + _LYING), ""),
    "lying compact array": (framed(_PRODUCE[4:28] + b"\xff\xff\xff\xff\x07" + _PRODUCE[29:]), ""),
    "ShareFetch": (framed(head(78, 1) + bytes(40)), "api key 78 is not offered through the gateway"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_requests_close_their_connection(gate: Gate, name: str) -> None:
    sent, text = BAD[name]
    before = closes(gate, "malformed_request")
    said = gate.output().count("closing connection: malformed_request")

    def logged() -> bool:
        return gate.output().count("closing connection: malformed_request") > said and text in gate.output()

    # Such lines are thinned out to one a second, so a test that follows another one may have to try again.
    while not logged():
        with RawClient(node(gate)) as raw:
            raw.send(sent)
            assert raw.rest() == b""
        time.sleep(0.1)
    gate.eventually(lambda: closes(gate, "malformed_request") > before, "it is counted")


def test_an_unknown_api_passes_and_is_counted(gate: Gate) -> None:
    with RawClient(node(gate)) as raw:
        raw.send(framed(head(999, 0) + b"whatever"))
        assert raw.rest() == b"", "Kafka itself closes on an API that it does not know"
    gate.eventually(
        lambda: gate.metric("sluicegate_broker_events_total", event="unknown_api_passed") > 0, "it is counted"
    )


def test_a_metadata_request_of_99_mib_does_not_reach_the_broker(gate: Gate) -> None:
    """It took a broker with a heap of 1 GiB down."""
    with RawClient(node(gate)) as raw:
        raw.send(framed(head(3, 1), 99 * _MIB))
        assert raw.rest() == b""
    gate.eventually(lambda: closes(gate, "request_too_large") > 0, "it is counted")
    gate.eventually(lambda: "raise request_bytes.metadata" in gate.output(), "the log says what to do")


def test_policed_apis_in_newer_versions_never_pass_unread(gate: Gate) -> None:
    """Kafka can say so for Fetch, and that connection goes on; for Produce it closes."""
    zero = datetime.timedelta(0)
    produce = call("produce", 13, acks=1, timeout=zero, topic_data=[])
    with RawClient(node(gate)) as raw:
        fetch = call("fetch", 17, max_wait=zero, min_bytes=0, topics=[], forgotten_topics_data=[], rack_id="")
        assert raw.ask(fetch).error_code is ErrorCode.unsupported_version
        versions = raw.ask(_VERSIONS)
        offered = {key.api_key: (key.min_version, key.max_version) for key in versions.api_keys}
        assert offered[0] == (3, 12)
        assert offered[1] == (4, 12)
        assert not offered.keys() & {76, 78, 79}
        raw.post(produce)
        assert raw.rest() == b""
    gate.eventually(
        lambda: gate.metric("sluicegate_broker_events_total", event="unsupported_version_refused") > 0,
        "the one is counted",
    )

    def is_told() -> bool:  # of such lines one a second is written
        with RawClient(node(gate)) as raw:
            raw.post(produce)
            assert raw.rest() == b""
        return "api key 0 version 13 is not offered through the gateway" in gate.output()

    gate.eventually(is_told, "the log says why")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("sent", "counter", "after_s"),
    [
        (_PRODUCE[:40], "sluicegate_frame_timed_out_total", _FRAME_S),
        (framed(head(3, 12), 1000), "sluicegate_frame_timed_out_total", _FRAME_S),
        (b"", "sluicegate_idle_timed_out_total", _IDLE_S),
    ],
    ids=["stalled Produce", "stalled Metadata", "silent"],
)
def test_stalled_and_silent_clients_are_closed_in_time(
    gate: Gate, other: SteadyProducer, sent: bytes, counter: str, after_s: float
) -> None:
    before = gate.metric(counter)
    began = time.monotonic()
    with RawClient(node(gate)) as raw:
        raw.send(sent)
        other.goes_on(20)
        assert raw.rest() == b""
    assert time.monotonic() - began > after_s - 0.5
    gate.eventually(lambda: gate.metric(counter) > before, "it is counted")
    reason = counter.removeprefix("sluicegate_").removesuffix("_total")
    assert f"closing connection: {reason}" in gate.output()


@pytest.mark.usefixtures("hasty")
def test_two_hundred_connections_with_garbage(gate: Gate) -> None:
    process = worker(gate)
    before_bytes = process.memory_info().rss
    half_frame = framed(_PRODUCE[4:40], 50 * _MIB) + bytes(256 * 1024)
    kinds = [sent for sent, _ in BAD.values()] + [half_frame]
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(node(gate))) for _ in range(200)]
        for number, client in enumerate(clients):
            try:
                client.send(kinds[number % len(kinds)])
            except ConnectionError:
                continue
        grown = process.memory_info().rss - before_bytes
        for client in clients:
            client.rest()
    assert grown < 64 * _MIB, f"{grown / _MIB:.0f} MiB for 200 connections"
    gate.eventually(lambda: gate.metric("sluicegate_held_bytes") < _MIB, "what was kept for them is free")


# -- from brokers -------------------------------------------------------------------------------------


def correlated(first: bytes, body: bytes, offset: int = 0) -> bytes:
    """A response to the first request."""
    return framed((int.from_bytes(first[8:12], "big") + offset).to_bytes(4, "big") + body)


_GARBAGE: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda first: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "another-correlation": lambda first: correlated(first, bytes(40), offset=1),
    "length-0": lambda first: bytes(12),
    "length-2-gib": lambda first: framed(first[8:12], 2**31 - 1),
    "lying-array": lambda first: correlated(first, b"\0\0\xff\xff\xff\xff\x07" + bytes(20)),
}


@pytest.mark.parametrize("name", _GARBAGE)
def test_an_upstream_that_answers_garbage(gate: Gate, upstream: MoodyUpstream, name: str) -> None:
    upstream.on(name.encode(), _GARBAGE[name])
    before = closes(gate, "malformed_response")
    with RawClient(gate.bootstrap, client_id=name) as raw:
        raw.post(_VERSIONS)
        assert raw.rest() == b""
    gate.eventually(lambda: closes(gate, "malformed_response") > before, "it is counted")
    assert "closing connection: malformed_response" in gate.output()


@pytest.mark.usefixtures("hasty")
def test_an_upstream_that_says_nothing(gate: Gate, upstream: MoodyUpstream) -> None:
    upstream.on(b"ignored", lambda first: b"")
    before = gate.metric("sluicegate_idle_timed_out_total")
    with RawClient(gate.bootstrap, client_id="ignored") as raw:
        raw.post(_VERSIONS)
        assert raw.rest() == b""
    gate.eventually(lambda: gate.metric("sluicegate_idle_timed_out_total") > before, "it is counted")


def test_an_upstream_that_goes_down_and_recovers(gate: Gate, upstream: MoodyUpstream) -> None:
    upstream.down()
    try:
        before = gate.metric("sluicegate_upstream_unreachable_total")
        with RawClient(gate.bootstrap) as raw:
            raw.post(_VERSIONS)
            assert raw.rest() == b""
        gate.eventually(
            lambda: gate.metric("sluicegate_upstream_unreachable_total") > before, "it is counted"
        )
        gate.eventually(lambda: f"cannot reach broker at {upstream.bootstrap}" in gate.output(), "it is told")
    finally:
        upstream.up()
    with RawClient(gate.bootstrap) as raw:
        answer = raw.ask(_VERSIONS)
        assert answer.error_code is ErrorCode.none


# -- the machine --------------------------------------------------------------------------------------


def test_running_out_of_descriptors(gate: Gate) -> None:
    process = worker(gate)
    soft, hard = process.rlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(process.rlimit, resource.RLIMIT_NOFILE, (soft, hard))
        process.rlimit(resource.RLIMIT_NOFILE, (process.num_fds() + 20, hard))
        clients = [stack.enter_context(RawClient(node(gate), timeout_s=1)) for _ in range(40)]
        gate.eventually(lambda: gate.metric("sluicegate_descriptors_used_up_total") > 0, "it is counted")
        assert "file descriptors used up" in gate.output()
        gate.eventually(
            lambda: sum(_was_closed(client.socket) for client in clients) >= 10, "they are turned away"
        )
    with RawClient(node(gate)) as raw:
        answer = raw.ask(_VERSIONS)
        assert answer.error_code is ErrorCode.none


def _was_closed(connection: socket.socket) -> bool:
    try:
        connection.settimeout(0.02)
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_more_clients_than_allowed(kafka: KafkaBroker, tmp_path: Path) -> None:
    with (
        Gate(tmp_path / "gate", kafka.bootstrap, broker={"max_connections": 5}) as gate,
        ExitStack() as stack,
    ):
        clients: list[Any] = [stack.enter_context(RawClient(gate.bootstrap)) for _ in range(8)]
        gate.eventually(lambda: gate.metric("sluicegate_connections_refused_total") == 3, "it is counted")
        # Counted comes first, closed comes then.
        gate.eventually(lambda: all(_was_closed(one.socket) for one in clients[5:]), "they are turned away")
        assert not any(_was_closed(one.socket) for one in clients[:5])
        assert "connection refused: 5 clients are connected; raise max_connections" in gate.output()
