"""What the Kafka room tells the watchdog of the event loop."""

import sys
from collections.abc import Iterator

import pytest
from tests.kafka.session.messages import batch, fetch, fetched, produce
from tests.kafka.session.wire import Bench, Wire

from sluicegate.engine.holders import Holder, holder_of
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.session import held_by
from sluicegate_kafka.session.fetching.fetching import Fetching
from sluicegate_kafka.session.producing import producing
from sluicegate_kafka.session.requests import sliced

held_by.enter()


def test_requests_are_named_by_their_api(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Holder] = []

    def look(*arguments: object) -> None:
        seen.append(holder_of(sys._getframe()))

    monkeypatch.setattr(producing, "scan_plain", look)
    monkeypatch.setattr(sliced.Sliced, "begin", lambda *arguments: True)
    Wire(Bench()).client_sends(produce({"t": batch(b"x")}))
    assert seen[0].held_by == "api kafka produce"
    assert seen[0].at == "sluicegate_kafka.session.producing.producing.Producing.request"


def test_slices_are_named_by_the_api_of_their_request() -> None:
    seen: list[Holder] = []
    head = RequestHead(api_key=0, version=9, correlation_id=1, client_id="app", start=4, body=4, end=4)

    def slices() -> sliced.Deciding:
        seen.append(holder_of(sys._getframe()))
        yield
        return True

    sliced.Sliced(b"", head, 0).begin(slices())
    assert seen[0].held_by == "api kafka produce"


def test_responses_are_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Holder] = []

    def look(*arguments: object) -> Iterator[None]:
        seen.append(holder_of(sys._getframe()))
        yield from ()

    monkeypatch.setattr(Fetching, "_cut_topic", look)
    wire = Wire(Bench(max_dispatch_rate=10))
    wire.client_sends(fetch("t"))
    wire.broker_sends(fetched({"t": batch(b"x")}))
    assert seen[0].held_by == "api kafka fetch response"
