"""Lookups return no address but the gateway's own."""

from typing import Any

import pytest
from danube.proto import DanubeApi_pb2, SchemaRegistry_pb2
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.broker.broker_ports import BrokerPorts
from sluicegate_danube.brokers import address_of
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.lookup import Lookup
from sluicegate_grpc.semantics.status import FAILED_PRECONDITION, Refusal

API: Any = DanubeApi_pb2
REGISTRY: Any = SchemaRegistry_pb2
RESPONSE = API.TopicLookupResponse

ADDRESSES = {
    "danube.TopicLookupResponse.connect_url": "rewritten",
    "danube.TopicLookupResponse.broker_url": "rewritten",
    "danube.TopicLookupResponse.proxy": "rewritten",
    "danube.MsgID.broker_addr": "what the producer wrote; no client connects to it",
}
"""Fields of responses that name, or say something of, an address."""
WORDS = ("url", "addr", "host", "port", "broker", "endpoint", "proxy", "listener")


def lookup(route: str = "ports", tls: bool = False, tell: Any = lambda broker: None, **entry: Any) -> Lookup:
    config = DanubeConfig.model_validate(
        {
            "name": "main",
            "system": "danube",
            "bootstrap": ["b1:6650", "b2:6650"],
            "listen": {"port": 16650},
            "advertised_host": "gate",
            "route": route,
            **entry,
        }
    )
    brokers = BrokerPorts(config, {}, address_of)
    brokers.start()
    return Lookup(brokers, config.route, tls, tell)


def answer(connect: str, broker: str = "", *, proxy: bool = False, kind: str = "Connect") -> Any:
    return RESPONSE(
        request_id=7,
        response_type=RESPONSE.LookupType.Value(kind),
        connect_url=connect,
        broker_url=broker or connect,
        proxy=proxy,
    )


def rewritten(by: Lookup, message: Any) -> Any:
    told = by.rewrite(message.SerializeToString())
    assert isinstance(told, bytes)
    return RESPONSE.FromString(told)


def messages(of: Any, found: dict[str, Any]) -> None:
    """A message's descriptor and those within it."""
    if of.full_name not in found:
        found[of.full_name] = of
        for field in of.fields:
            if field.message_type is not None:
                messages(field.message_type, found)


def test_every_address_field_of_a_response_is_covered() -> None:
    responses: dict[str, Any] = {}
    for module in (API, REGISTRY):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                messages(method.output_type, responses)
    fields = {field.full_name for message in responses.values() for field in message.fields}
    suspect = {name for name in fields if any(word in name.rsplit(".", 1)[1] for word in WORDS)}
    assert suspect == set(ADDRESSES)
    # Partitions are topics of their own, each of which is looked up.
    assert [field.name for field in API.TopicPartitionsResponse.DESCRIPTOR.fields] == [
        "request_id",
        "partitions",
    ]


@pytest.mark.parametrize("kind", ["Connect", "Redirect"])
@pytest.mark.parametrize(
    ("by", "connect", "told"),
    [
        (lookup(), "http://b2:6650", ("http://gate:16652", "http://gate:16652", False)),
        (lookup(), "b1:6650", ("gate:16651", "gate:16651", False)),
        (lookup(tls=True), "http://b2:6650", ("https://gate:16652", "https://gate:16652", False)),
        (lookup(bootstrap=["b2:6650"]), "http://b2:6650", ("http://gate:16650", "http://gate:16650", False)),
        (lookup("metadata"), "http://b2:6650", ("http://gate:16650", "http://b2:6650", True)),
        (lookup("metadata", tls=True), "http://b2:6650", ("https://gate:16650", "http://b2:6650", True)),
    ],
)
def test_lookups_return_the_address_of_the_gateway(
    by: Lookup, connect: str, told: tuple[str, str, bool], kind: str
) -> None:
    new = rewritten(by, answer(connect, kind=kind))
    assert (new.connect_url, new.broker_url, new.proxy) == told
    assert new.request_id == 7
    assert new.response_type == RESPONSE.LookupType.Value(kind)
    assert by.refused == 0


def test_behind_danubes_own_proxy_the_named_broker_stays() -> None:
    told = answer("http://b1:6650", "broker-0.inside:6650", proxy=True)
    known = ["*.inside:6650"]
    new = rewritten(lookup(known_brokers=known), told)
    assert (new.connect_url, new.broker_url, new.proxy) == ("http://gate:16651", "broker-0.inside:6650", True)
    new = rewritten(lookup("metadata", known_brokers=known), told)
    assert (new.connect_url, new.broker_url, new.proxy) == ("http://gate:16650", "broker-0.inside:6650", True)
    assert isinstance(lookup().rewrite(told.SerializeToString()), Refusal)


@pytest.mark.parametrize("route", ["ports", "metadata"])
@pytest.mark.parametrize("url", ["http://evil:6650", "b1:22", "", "nonsense", "http://b1:6650@evil:1"])
def test_an_unknown_broker_fails_the_lookup_without_its_address(route: str, url: str) -> None:
    told: list[str] = []
    by = lookup(route, tell=told.append)
    for _ in range(2):
        refusal = by.rewrite(answer(url).SerializeToString())
        assert isinstance(refusal, Refusal)
        assert refusal.code == FAILED_PRECONDITION
        assert "known_brokers" in refusal.text
        assert not url or url not in refusal.text
    assert (by.refused, told) == (2, [url])


def test_log_lines_about_unknown_brokers_are_bounded() -> None:
    told: list[str] = []
    by = lookup(tell=told.append)
    for number in range(2_000):
        by.rewrite(answer(f"http://evil-{number}:1{'0' * 300}").SerializeToString())
    assert len(told) == 1_000
    assert max(map(len, told)) <= 200


def test_a_failed_lookup_stays_as_it_is_without_addresses() -> None:
    by = lookup()
    assert by.rewrite(RESPONSE(request_id=7, response_type=RESPONSE.Failed).SerializeToString()) is None
    new = rewritten(by, answer("http://b1:6650", kind="Failed"))
    assert new == RESPONSE(request_id=7, response_type=RESPONSE.Failed)


def test_unknown_fields_are_kept() -> None:
    newer = b"\xfa\x07\x03abc\xf9\x07" + bytes(8)
    message = answer("http://b1:6650").SerializeToString()
    told = lookup().rewrite(newer[:6] + message + newer[6:])
    assert isinstance(told, bytes)
    assert newer[:6] in told
    assert newer[6:] in told
    assert RESPONSE.FromString(told).connect_url == "http://gate:16651"


def test_only_the_last_of_repeated_values_is_kept() -> None:
    first, last = answer("http://evil:1"), answer("http://b2:6650")
    told = lookup().rewrite(first.SerializeToString() + last.SerializeToString())
    assert isinstance(told, bytes)
    assert b"evil" not in told
    assert RESPONSE.FromString(told).connect_url == "http://gate:16652"


@given(
    st.one_of(
        st.binary(max_size=64), st.binary(max_size=16).map(lambda junk: b"\x2a\x0eb2.inside:6650" + junk)
    )
)
def test_a_malformed_response_neither_raises_nor_leaks_an_address(data: bytes) -> None:
    told = lookup().rewrite(data)
    if isinstance(told, Refusal):
        assert "inside" not in told.text
        return
    if told is None:
        told = data
    try:
        new = RESPONSE.FromString(told)
    except DecodeError:
        assert b"inside" not in told
        return
    assert new.connect_url in ("", "gate:16651", "gate:16652", "http://gate:16651", "http://gate:16652")
    assert b"inside" not in told
