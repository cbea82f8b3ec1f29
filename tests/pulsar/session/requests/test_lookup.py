"""No client learns an address that bypasses the gateway."""

from typing import Any

import pytest
from tests.pulsar.codec.addressed import ADDRESS_FIELDS, addressed
from tests.pulsar.session.messages import connect, connected, frame
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame

CONNECT, REDIRECT, FAILED = (
    pb.LookupResponse.CONNECT,
    pb.LookupResponse.REDIRECT,
    pb.LookupResponse.FAILED,
)
TWO: dict[str, Any] = {"bootstrap": ["b:6650"], "known_brokers": ["c:6650"]}


def response(wire: Wire, result: int, url: str, tls: str = "", **fields: Any) -> pb.LookupResponse:
    """What the client gets where the broker answers so."""
    wire.broker_sends(
        frame(
            "lookup_response",
            request_id=7,
            response=result,
            broker_service_url=url,
            broker_service_url_tls=tls,
            **fields,
        )
    )
    [answer] = wire.answered()
    assert answer.lookup_response.request_id == 7
    return answer.lookup_response


def test_a_lookup_returns_the_address_that_the_client_knows() -> None:
    answer = response(Wire(Bench(), **TWO), CONNECT, "pulsar://c:6650", authoritative=True)
    assert answer.proxy_through_service_url
    assert answer.authoritative
    assert answer.broker_service_url == "pulsar://c:6650"
    assert answer.broker_service_url_tls == "pulsar+ssl://c:6650"


def test_a_broker_of_a_lookup_gets_its_port_for_lookups_over_http() -> None:
    web: dict[str, Any] = {"admin": {"url": "http://b:8080"}, "web": {"listen": {"port": 18_080}}}
    wire = Wire(Bench(), **TWO, **web)
    response(wire, CONNECT, "pulsar://c:6650")
    assert ("c", 6650) in wire.session._shared.brokers.known


def test_with_tls_to_brokers_the_tls_address_is_resolved() -> None:
    wire = Wire(Bench(), bootstrap=["b:6651"], tls={"broker": {}})
    answer = response(wire, CONNECT, "pulsar://b:6650", "pulsar+ssl://b:6651")
    assert answer.broker_service_url == "pulsar://b:6651"
    assert answer.broker_service_url_tls == "pulsar+ssl://b:6651"


def test_a_redirected_lookup_returns_the_gateways_port_for_that_broker() -> None:
    answer = response(Wire(Bench(), **TWO), REDIRECT, "pulsar://c:6650", "pulsar+ssl://c:6651")
    assert (answer.response, answer.broker_service_url) == (REDIRECT, "pulsar://127.0.0.1:19002")
    assert answer.broker_service_url_tls == ""


@pytest.mark.parametrize("result", [CONNECT, REDIRECT])
def test_a_lookup_to_an_unknown_broker_fails_with_the_reason(result: int) -> None:
    wire = Wire(Bench(), **TWO)
    answer = response(wire, result, "pulsar://elsewhere:6650")
    assert (answer.response, answer.error) == (FAILED, pb.SERVICE_NOT_READY)
    assert "elsewhere:6650" in answer.message
    assert not answer.broker_service_url
    assert wire.shared.counters()["unknown_broker_refused"] == 1


def test_a_failed_lookup_passes_unchanged() -> None:
    wire = Wire(Bench())
    sent = frame("lookup_response", request_id=7, response=FAILED, error=pb.TOPIC_NOT_FOUND, message="no")
    wire.broker_sends(sent)
    assert wire.sent_down() == [sent]


def test_clients_do_not_follow_a_topic_to_another_cluster() -> None:
    wire = Wire(Bench())
    wire.broker_sends(frame("topic_migrated", resource_id=1, broker_service_url="pulsar://blue:6650"))
    assert wire.sent_down() == []
    assert wire.shared.counters()["topic_migration_withheld"] == 1


@pytest.mark.parametrize("kind", ["close_producer", "close_consumer"])
@pytest.mark.parametrize(
    ("proxied", "url", "told"),
    [
        (False, "pulsar://c:6650", "pulsar://127.0.0.1:19002"),
        (True, "pulsar://c:6650", "pulsar://c:6650"),
        (False, "pulsar://elsewhere:6650", ""),
        (True, "pulsar://elsewhere:6650", ""),
        (True, "", ""),
    ],
)
def test_a_moved_topic_is_reached_through_the_gateway(kind: str, proxied: bool, url: str, told: str) -> None:
    wire = Wire(Bench(), is_open=False, **TWO)
    wire.client_sends(connect(**({"proxy_to_broker_url": "b:6650"} if proxied else {})))
    wire.broker_sends(connected())
    wire.sent_down()
    number = {"producer_id" if kind == "close_producer" else "consumer_id": 3}
    wire.broker_sends(frame(kind, request_id=2**64 - 1, assigned_broker_service_url=url, **number))
    [answer] = wire.answered()
    assert getattr(answer, kind).assigned_broker_service_url == told


@pytest.mark.parametrize("kind", sorted(set(ADDRESS_FIELDS) - {pb.BaseCommand.CONNECT}))
@pytest.mark.parametrize("proxied", [False, True])
def test_no_field_leaks_the_address_of_an_unknown_broker(kind: int, proxied: bool) -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(connect(**({"proxy_to_broker_url": "b:6650"} if proxied else {})))
    wire.broker_sends(connected())
    wire.sent_down()
    command = addressed(kind)
    assert "://b1" in str(command)
    wire.broker_sends(command_frame(command))
    for answer in wire.answered():
        answer.lookup_response.ClearField("message")  # says which broker it is
        assert "b1" not in str(answer)
