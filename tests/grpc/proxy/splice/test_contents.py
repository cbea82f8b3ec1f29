"""Policies that read messages, and change their headers, in calls through the proxy."""

import gzip
from dataclasses import replace
from typing import Any

import pytest
from tests.bench import SECOND, Bench
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.oracle.service import field
from tests.grpc.proxy.splice.talk import METHODS, PUBLISH, TOPIC, Talk, front

from sluicegate.broker import PASS
from sluicegate.engine.check import Check
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    Action,
    Decision,
    HeaderChange,
    Message,
    Method,
    Operation,
    OperationKind,
    Outcome,
    Part,
    Reason,
    Role,
)
from sluicegate_grpc.proxy.splice import Limits
from sluicegate_grpc.proxy.splice.resuming import Aliases

SEND = Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,), headers=(7,), key=(10,), schema=(9,))
BATCH = Method(Role.PUBLISH, topic=(1,), batch=(2,), payload=(2, 3), headers=(2, 7), by_connection=True)
SEND_ALL = "/t.Broker/SendAll"


def talk(bench: Bench | None = None, *, limits: Limits | None = None, **policies: Any) -> Talk:
    """A session whose producer is attached."""
    shared = front(bench, limits=limits, **policies)
    methods = {**METHODS.methods, PUBLISH: SEND, SEND_ALL: BATCH}
    shared.rules.methods = shared.calls.methods = replace(METHODS, methods=methods)
    made = Talk(shared)
    made.attach()
    return made


def header(name: str, value: bytes = b"1") -> bytes:
    return field(7, field(1, name) + field(2, value))


def sent(*headers: bytes, payload: bytes = b"x") -> bytes:
    return field(1, TOPIC) + field(2, 7) + b"".join(headers) + field(3, payload)


def forwarded(of: Talk, stream: int) -> bytes:
    """The broker has got one whole request."""
    of.take(of.wire.server)
    seen = of.wire.server.seen[stream]
    assert seen.is_over or not of.client(stream).is_over
    data = bytes(seen.data)
    assert data[0] == 0
    assert int.from_bytes(data[1:5]) == len(data) - 5
    return data[5:]


def test_a_required_header_is_looked_for_in_each_message() -> None:
    of = talk(required_headers="trace")
    whole = sent(header("a"), header("trace"))
    for _ in range(3):  # equal messages are read as well
        stream = of.call(PUBLISH, service.framed(whole))
        assert forwarded(of, stream) == whole
        of.answer(stream)
    code, text = of.refused(of.call(PUBLISH, service.framed(sent(header("a")))))
    assert code == "3"
    assert text.startswith(f"A message for topic {TOPIC} has no header trace.")
    of.hang_up()


def test_messages_of_a_topic_that_no_policy_reads_pass_as_they_came() -> None:
    of = talk(max_message_size=100)
    of.call(PUBLISH, service.framed(sent(header("trace"))), settled=False)
    of.wire.collect()
    assert of.session.receive_client(of.wire.to_gate.take(100_000), of.wire.now) is PASS
    of.hang_up()


def test_a_message_is_read_once_it_is_all_there() -> None:
    of = talk(forbidden_headers="secret")
    message = service.framed(sent(payload=b"x" * 5_000) + header("secret"))
    stream = of.call(PUBLISH, message[:4_000], end=False)
    assert of.wire.server.seen.get(stream) is None
    of.send(stream, message[4_000:], end=True)
    assert "has header secret" in of.refused(stream)[1]
    of.hang_up()


def test_a_message_that_may_not_be_kept_is_refused() -> None:
    of = talk(limits=Limits(message_bytes=1_000), required_headers="trace")
    message = service.framed(sent(header("trace"), payload=b"x" * 2_000))
    code, text = of.refused(of.call(PUBLISH, message[:500], end=False))
    assert code == "8"
    assert "Message of " in text
    of.hang_up()


@pytest.mark.parametrize("size", [1, 30_000, 100_000])
def test_a_header_is_removed_and_all_else_stays(size: int) -> None:
    of = talk(remove_headers="x-*")
    payload = b"p" * size
    stream = of.call(PUBLISH, b"", end=False)
    of.send(
        stream, service.framed(sent(header("x-a"), header("b"), payload=payload) + header("x-b")), end=True
    )
    assert forwarded(of, stream) == sent(header("b"), payload=payload)
    of.answer(stream)
    assert of.client(stream).status == "0"
    assert of.session.held_bytes == 0
    of.hang_up()


def test_each_message_of_a_stream_is_changed() -> None:
    of = talk(remove_headers="x", forbidden_headers="secret")
    both = service.framed(sent(header("x"), payload=b"1")) + service.framed(sent(header("x"), payload=b"2"))
    stream = of.call(PUBLISH, both[:-3], end=False)
    of.send(stream, both[-3:])
    of.send(stream, service.framed(sent(header("b"), payload=b"3")), end=True)
    got = list(service.messages(bytes(of.wire.server.seen[stream].data)))
    expected = (sent(payload=b"1"), sent(payload=b"2"), sent(header("b"), payload=b"3"))
    assert got == [service.framed(each) for each in expected]
    stream = of.call(PUBLISH, both, end=False)
    of.send(stream, service.framed(sent(header("secret"))))
    assert of.client(stream).status == "3"
    of.hang_up()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_compressed_message_is_read_and_changed(encoding: str) -> None:
    of = talk(remove_headers="x", required_headers="trace")

    def call(raw: bytes) -> int:
        packed = gzip.compress(raw) if encoding == "gzip" else raw
        message = service.framed(packed, int(encoding == "gzip"))
        return of.call(PUBLISH, message, ("grpc-encoding", encoding))

    assert of.refused(call(sent(header("x"))))[0] == "3"
    assert forwarded(of, call(sent(header("x"), header("trace")))) == sent(header("trace"))
    of.hang_up()


def test_each_message_of_a_batch_is_read_and_changed() -> None:
    of = talk(remove_headers="x", required_headers="trace")

    def batch(*messages: bytes) -> int:
        raw = field(1, TOPIC) + b"".join(field(2, each) for each in messages) + field(3, 5)
        return of.call(SEND_ALL, service.framed(raw))

    good, bad = header("trace") + field(3, b"x"), field(3, b"x")
    assert of.refused(batch(good, bad))[0] == "3"
    expected = field(1, TOPIC) + field(2, good) + field(2, good) + field(3, 5)
    assert forwarded(of, batch(good, header("x") + good)) == expected
    of.hang_up()


def test_a_delayed_message_is_changed_once_it_passes() -> None:
    of = talk(max_publish_rate=1, on_limit__max_publish_rate="delay", remove_headers="x")
    first, second = (
        of.call(PUBLISH, service.framed(sent(header("x"), payload=each))) for each in (b"1", b"2")
    )
    assert forwarded(of, first) == sent(payload=b"1")
    assert of.wire.server.seen.get(second) is None
    of.wire.pass_time(SECOND)
    assert forwarded(of, second) == sent(payload=b"2")
    of.hang_up()


def test_a_policy_that_comes_into_force_meanwhile_reads_a_delayed_message() -> None:
    bench = Bench()
    of = talk(bench, max_publish_rate=1, on_limit__max_publish_rate="delay")
    of.call(PUBLISH, service.framed(sent()))
    held = of.call(PUBLISH, service.framed(sent()))
    bench.set(required_headers="trace")
    of.wire.pass_time(SECOND)
    of.wire.settle()
    assert "has no header trace" in of.refused(held)[1]
    of.hang_up()


def test_headers_that_cannot_be_changed_are_refused_not_passed() -> None:
    of = talk(remove_headers="x")
    message = service.framed(sent(header("x")))
    stream = of.call(PUBLISH, message, ("content-length", str(len(message))))
    code, text = of.refused(stream)
    assert code == "3"
    assert text.startswith(
        f"Headers of a message for topic {TOPIC} cannot be changed: the request says how long it is in "
        "content-length. Policy remove_headers needs to."
    )
    assert of.shared.counts["headers_unchanged"] == 1
    plain = service.framed(sent())
    assert forwarded(of, of.call(PUBLISH, plain, ("content-length", str(len(plain))))) == sent()
    of.hang_up()


def test_headers_that_cannot_be_changed_for_lack_of_memory_are_refused() -> None:
    bench = Bench()
    of = talk(bench, remove_headers="x")
    bench.budget.limit = 2_000
    stream = of.call(PUBLISH, service.framed(sent(header("x"), payload=b"p" * 1_400)))
    assert "there is no memory for it" in of.refused(stream)[1]
    of.hang_up()


def test_messages_that_cannot_be_read_are_refused_by_what_must_read_them() -> None:
    of = talk(required_headers="trace")
    bad = sent(header("trace"), field(7, field(1, b"\xff")))
    code, text = of.refused(of.call(PUBLISH, service.framed(bad)))
    assert code == "3"
    assert "cannot be read: they are malformed" in text
    of.hang_up()


def test_a_producer_that_is_not_known_is_read_and_counts_once_it_is_answered() -> None:
    of = talk(required_headers="trace", max_producers_per_topic=2)
    other = field(1, TOPIC) + field(2, 8)
    assert of.refused(of.call(PUBLISH, service.framed(other)))[0] == "3"
    assert of.producers() == 1  # what was never sent cannot confirm it
    stream = of.call(PUBLISH, service.framed(other + header("trace")))
    of.answer(stream)
    assert of.producers() == 2
    of.hang_up()


def test_a_recreated_producers_message_gets_its_new_id_and_other_headers() -> None:
    of = talk(remove_headers="x")
    of.shared.resume_producers(Aliases(lambda message, path, created: message + field(2, created)))
    assert of.shared.aliases is not None
    of.shared.aliases.add(7, 99)
    of = Talk(of.shared)
    stream = of.call(PUBLISH, service.framed(sent(header("x"))))
    assert forwarded(of, stream) == sent() + field(2, 99)


class Marking:
    """A plugin that sees all parts of a message, and sets a header."""

    def __init__(self) -> None:
        self.seen: list[Message] = []

    @hookimpl
    def sluicegate_policy_checks(self, topic: object, policies: object, context: object) -> list[Check]:
        def check(op: Operation, now_ns: int) -> Decision | None:
            self.seen += op.contents
            reasons = (Reason("mark", Outcome.INVALID, "marked"),)
            return Decision(Action.REWRITE, reasons, headers=HeaderChange({"mark": b"\xfe"}))

        return [Check("mark", (OperationKind.PUBLISH,), check, reads=tuple(Part))]


def test_a_plugin_sees_every_part_and_sets_a_header() -> None:
    plugin = Marking()
    of = talk(Bench({}, [plugin]))
    raw = sent(header("a")) + field(10, b"k") + field(9, 17)
    stream = of.call(PUBLISH, service.framed(raw))
    assert forwarded(of, stream) == raw + header("mark", b"\xfe")
    assert plugin.seen == [Message((("a", b"1"),), b"k", "17", b"x")]
    publish = of.shared.calls.attachments.places.producers[7].publishing
    assert publish is not None
    assert publish[1].contents == ()
    of.hang_up()
