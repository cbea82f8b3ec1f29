"""Messages of one client from several threads."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic_ns

import pytest
from tests.client.test_open_policies import new_file

from sluicegate.client.open_policies import OpenPolicies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.client.sync import finish
from sluicegate.model import Message, OperationKind
from sluicegate.runtime.plugins import CHOICE

MESSAGES = 3_000
SMALL, LARGE = 10, 1_000


@pytest.fixture(autouse=True)
def switching(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads take turns as often as they can."""
    monkeypatch.setenv(CHOICE, "kafka")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def client_of(directory: Path, **policies: object) -> tuple[OpenPolicies, PolicedClient]:
    opened = OpenPolicies(new_file(directory, "kafka", policies), "kafka")
    return opened, PolicedClient(opened.engine, "User:ann", "shop", None)


def test_each_message_is_decided_by_its_own_size(tmp_path: Path) -> None:
    opened, client = client_of(tmp_path, max_message_size=100)
    publisher = Publisher(client, "orders.eu", Message)

    def refused(size: int) -> int:
        count = 0
        for _ in range(MESSAGES):
            try:
                publisher.send(size, monotonic_ns(), ())
            except RefusedError:
                count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(refused, [SMALL, LARGE, SMALL, LARGE]))
    opened.close()
    assert counts == [0, MESSAGES, 0, MESSAGES]


def test_a_message_that_waits_is_not_charged_as_another_one(tmp_path: Path) -> None:
    opened, client = client_of(tmp_path, max_publish_rate_bytes=SMALL)
    publisher = Publisher(client, "orders.eu", Message)

    def held(size: int) -> list[int]:
        decided = [publisher.send(size, monotonic_ns(), ()) for _ in range(100)]
        return [each.op.bytes for each in decided if isinstance(each, HeldMessage)]

    publisher.send(LARGE, monotonic_ns(), ())
    with ThreadPoolExecutor(2) as pool:
        small, large = pool.map(held, [SMALL, LARGE])
    opened.close()
    assert set(small) == {SMALL}
    assert set(large) == {LARGE}


def test_received_messages_are_charged_once(tmp_path: Path) -> None:
    opened, client = client_of(tmp_path, max_dispatch_rate_bytes="1GB")
    receiver = Receiver(client, "orders.eu", "mine")

    def receive(size: int) -> None:
        for _ in range(MESSAGES):
            receiver.wait_ns(size, 0, monotonic_ns())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(receive, [1, 1_000]))
    state = opened.engine.gates.states["orders.eu"]
    opened.close()
    assert state.dispatched_bytes == MESSAGES * 1_001


def test_a_client_that_has_ended_takes_no_place(tmp_path: Path) -> None:
    opened, client = client_of(tmp_path, max_producers_per_topic=1)
    engine, kind = opened.engine, OperationKind.ATTACH_PRODUCER
    other = PolicedClient(engine, "User:ann", "shop", 0)
    client.end(monotonic_ns())
    for each in (client, client, other):
        finish(engine, partial(each.attaching, kind=kind, topic="orders.eu"), Event())
    assert not client.is_attached(kind, "orders.eu")
    assert other.is_attached(kind, "orders.eu")
    opened.close()
