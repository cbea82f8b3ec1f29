"""Policies that read messages, in the processes of clients."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from sluicegate.client import text_headers
from sluicegate.client.open_policies import OpenPolicies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine
from sluicegate.engine.check import Check
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    UNCHANGED,
    Action,
    Decision,
    HeaderChange,
    Headers,
    Level,
    Operation,
    OperationKind,
    Outcome,
    PolicyLayer,
    Reason,
    Setting,
    Source,
)
from sluicegate.sessions.work import Running
from sluicegate.testing import NullSink
from sluicegate_kafka.client.described import changed, lengths_of, message_of
from sluicegate_kafka.config import KafkaConfig

FILE = """
brokers: [{{name: shop, system: kafka, bootstrap: ["127.0.0.1:1"]}}]
state_dir: {state}
policies:
  broker:
    required_headers: trace
    remove_headers: x-*
    max_publish_rate: 2
    burst_seconds: 1
"""
TRACED, SECRET = ("trace", b"1"), ("x-secret", b"2")
LATER_NS = 10_000_000_000


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    file = tmp_path / "policies.yaml"
    file.write_text(FILE.format(state=tmp_path / "state"))
    opened = OpenPolicies(file, "kafka", None)
    yield Publisher(PolicedClient(opened.engine, "User:ann", "shop", None), "orders.eu", message_of)
    opened.close()


def parts(*headers: tuple[str, bytes]) -> tuple[tuple[Headers, bytes, bytes], ...]:
    return ((headers, b"k", b"v"),)


def test_a_message_without_a_required_header_is_refused(publisher: Publisher) -> None:
    assert publisher.send(2, monotonic_ns(), parts(TRACED)) is UNCHANGED
    with pytest.raises(RefusedError, match="has no header trace"):
        publisher.send(2, monotonic_ns(), parts())
    with pytest.raises(RefusedError, match="cannot be read: they were batched by the application"):
        publisher.send(2, monotonic_ns(), None, 1)


def test_headers_change_before_the_library_gets_them(publisher: Publisher) -> None:
    change = publisher.send(2, monotonic_ns(), parts(TRACED, SECRET))

    assert change == HeaderChange(remove=frozenset({"x-secret"}))


def test_a_held_message_changes_when_it_goes_on(publisher: Publisher) -> None:
    now_ns = monotonic_ns()
    for _ in range(2):
        assert publisher.send(2, now_ns, parts(TRACED)) is UNCHANGED
    held = publisher.send(2, now_ns, parts(TRACED, SECRET))

    assert isinstance(held, HeldMessage)
    running: Running[HeaderChange] = Running(now_ns)
    made = running.begin(held.waiting(running))
    assert made is running
    assert running.go_on(now_ns + 2_000_000_000) == HeaderChange(remove=frozenset({"x-secret"}))


class Stamping:
    """Sets a header of each message, without reading any."""

    @hookimpl
    def sluicegate_policy_checks(self) -> list[Check]:
        return [Check("stamp", (OperationKind.PUBLISH,), self._stamp)]

    @staticmethod
    def _stamp(op: Operation, now_ns: int) -> Decision:
        reason = Reason("stamp", Outcome.INVALID, "stamped")
        return Decision(Action.REWRITE, (reason,), headers=HeaderChange({"stamp": b"1"}))


@pytest.mark.parametrize("rate", [10, 1])  # by 1 a second, the second message is held
def test_headers_that_cannot_be_changed_are_told_once(caplog: pytest.LogCaptureFixture, rate: int) -> None:
    entry = {"name": "shop", "system": "kafka", "bootstrap": ["127.0.0.1:1"], "listen": {"port": 2}}
    config = GatewayConfig(brokers=(KafkaConfig.model_validate(entry),))
    layers = [PolicyLayer(Level.BROKER, "", {"max_publish_rate": Setting(rate, Source.FILE)})]
    with PolicyEngine(config, layers, plugins=[Stamping()], sink=NullSink()) as engine:
        client = PolicedClient(engine, "User:ann", "shop", None)
        free = Publisher(client, "orders.eu", message_of)
        fixed = Publisher(client, "orders.us", message_of, unchangeable="the library takes none")
        for _ in range(2):
            assert sent(free, parts()) == HeaderChange({"stamp": b"1"})
        assert not engine.not_enforced
        for contents, now_ns in ((parts(), 0), (parts(), 0), (None, 2 * LATER_NS)):
            assert sent(fixed, contents, now_ns) is UNCHANGED
        assert engine.not_enforced == {"stamp": "headers stay as they are: the library takes none"}
        assert engine.explain("orders.us")["not_enforced"] == engine.not_enforced
    [line] = [each.message for each in caplog.records if "stamp" in each.message]
    assert line.endswith("enforced in this process: headers stay as they are: the library takes none")


def sent(
    publisher: Publisher, contents: Sequence[tuple[Any, ...]] | None, now_ns: int = 0
) -> HeaderChange | None:
    """What changes in a message, later if it is held."""
    change = publisher.send(2, now_ns, contents)
    if not isinstance(change, HeldMessage):
        return change
    running: Running[HeaderChange] = Running(now_ns)
    assert running.begin(change.waiting(running)) is running
    made = running.go_on(now_ns + LATER_NS)
    assert not isinstance(made, Running)
    return made


@pytest.mark.parametrize("form", [dict, list])
def test_headers_of_kafka_in_each_form(form: type) -> None:
    headers = form([("trace", "1"), ("x-secret", None), ("a", b"2")])

    message = message_of(headers, "k", b"v")
    assert message.headers == (("trace", b"1"), ("x-secret", b""), ("a", b"2"))
    assert (message.key, message.value) == (b"k", b"v")
    change = HeaderChange({"a": b"3"}, frozenset({"x-secret"}))
    assert changed(headers, change) == [("trace", "1"), ("a", b"3")]


MALFORMED = [[("a", 1)], [("a",)], [("a", b"1", b"2")], [(1, b"1")], [(b"a", b"1")], [(None, b"1")], "a", 5]


@pytest.mark.parametrize("headers", MALFORMED, ids=repr)
def test_malformed_headers_of_kafka_are_refused_before_anything_is_charged(headers: Any) -> None:
    with pytest.raises(TypeError, match="headers are pairs of a text and bytes, such as"):
        lengths_of(headers)


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, {"a": None}, [("a", "1")], "a", 5], ids=repr)
def test_malformed_headers_that_are_no_texts_are_refused(headers: Any) -> None:
    with pytest.raises(TypeError, match="headers are texts by name, such as"):
        text_headers.message_of(headers, None, b"v")


def test_a_malformed_message_charges_nothing_and_the_next_one_passes(publisher: Publisher) -> None:
    for _ in range(5):
        with pytest.raises(ValueError, match="too many values"):
            publisher.send(2, monotonic_ns(), parts(("a", b"1", b"2")))  # type: ignore[arg-type]
    assert publisher.send(2, monotonic_ns(), parts(TRACED)) is UNCHANGED


def test_headers_that_are_texts() -> None:
    change = HeaderChange({"a": b"3"}, frozenset({"x-secret"}))

    assert text_headers.changed({"x-secret": "1", "a": "2", "b": "4"}, change) == {"a": "3", "b": "4"}
    assert text_headers.changed(None, change) == {"a": "3"}
    assert text_headers.message_of({b"a": b"1"}, None, None).headers == (("a", b"1"),)  # type: ignore[dict-item]
