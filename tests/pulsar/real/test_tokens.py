"""A broker that asks for tokens."""

from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.pulsar.cluster.scripted_api import api_at, json, serving
from tests.pulsar.real.support import tokens
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.raw import RawClient
from tests.real.reachability import check_up, cut_off
from tests.waiting import until

from sluicegate_pulsar.cluster.admin import AdminApiError
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import frame_of
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_reports.runner.brokers.pulsar import CLUSTER


def test_roles_have_only_their_permissions(guarded_pulsar: PulsarBroker) -> None:
    topic = "persistent://public/default/guarded"
    guarded_pulsar.admin.create_topic(topic)
    guarded_pulsar.admin.post("/namespaces/public/default/permissions/alice", ["produce"])
    with RawClient(guarded_pulsar.address) as nobody:
        assert nobody.connected.error.error == ServerError.AUTHENTICATION_ERROR
    with RawClient(guarded_pulsar.address, **tokens.login("alice")) as alice:
        assert alice.producer(topic).HasField("producer_success")
        assert alice.subscribe(topic, "one").error.error == ServerError.AUTHORIZATION_ERROR


def test_a_gateway_without_a_token_sees_the_broker_as_up(
    guarded_pulsar: PulsarBroker, tmp_path: Path
) -> None:
    with Gate(tmp_path / "gate", guarded_pulsar.address) as gate:
        check_up(gate)
        assert cut_off(gate) == 0


def test_a_producer_that_is_opened_after_its_close_publishes_nothing(
    guarded_pulsar: PulsarBroker, tmp_path: Path
) -> None:
    """The broker answers the close while it still checks the rights, and opens the producer then."""
    limited, free = "persistent://public/default/limited", "persistent://public/default/free"
    for topic in (limited, free):
        guarded_pulsar.admin.create_topic(topic)
    policies = {"topics": [{"name": limited, "max_message_size": 100}]}
    with (
        Gate(tmp_path / "gate", guarded_pulsar.address, policies) as gate,
        RawClient(gate.bootstrap, **tokens.login("alice")) as alice,
        suppress(ConnectionError, TimeoutError),
    ):
        guarded_pulsar.admin.post("/namespaces/public/default/permissions/alice", ["produce"])
        opening = frame_of(pb.Producer(topic=limited, producer_id=1, request_id=11))
        alice.socket.sendall(opening + frame_of(pb.CloseProducer(producer_id=1, request_id=12)))
        alice.socket.settimeout(20)  # shorter than pings are apart: it may open none
        for _ in range(2):  # in either order
            alice.receive(pb.BaseCommand.SUCCESS, pb.BaseCommand.PRODUCER_SUCCESS)
        alice.producer(free, 1)  # the broker takes it for the one that is open
        alice.publish(bytes(1_000))
    assert guarded_pulsar.admin.stats(limited)["msgInCounter"] == 0


async def test_the_admin_token_goes_to_no_other_cluster(guarded_pulsar: PulsarBroker) -> None:
    """A broker redirects requests about the brokers and the topics of a partner to that cluster."""
    admin = guarded_pulsar.admin
    async with serving(lambda _: json(b'["127.0.0.3:8080"]')) as (port, requests):
        partner = f"http://localhost:{port}"
        admin.put("/clusters/partner", {"serviceUrl": partner})
        admin.post(f"/clusters/{CLUSTER}/peers", ["partner"])
        admin.put("/tenants/shared", {"allowedClusters": [CLUSTER, "partner"]})
        admin.put("/namespaces/shared/there", {"replication_clusters": ["partner"]})
        api, brokers = api_at(guarded_pulsar.admin_url, tokens.token(tokens.SUPERUSER))
        await api.list_brokers()
        with pytest.raises(AdminApiError, match=f"redirects to {partner}, which is not followed"):
            await api.subscriptions("persistent://shared/there/orders")
    assert requests == []
    assert brokers.target("127.0.0.1:6650") is not None
    assert brokers.target("127.0.0.3:6650") is None


def test_http_lookups_lead_to_a_broker_that_a_binary_lookup_named(
    guarded_pulsar: PulsarBroker, tmp_path: Path
) -> None:
    """Without a token the gateway cannot list the brokers, but it met this one."""
    topic, superuser = "persistent://public/default/met", tokens.login(tokens.SUPERUSER)
    guarded_pulsar.admin.create_topic(topic)
    service = guarded_pulsar.address.replace("127.0.0.1", "localhost")
    known = {"known_brokers": [guarded_pulsar.address]}
    with (
        Gate(tmp_path / "gate", service, broker=known, admin_url=guarded_pulsar.admin_url) as gate,
        closing(Admin(gate.web_url, tokens.bearer(tokens.SUPERUSER))) as web,
        RawClient(gate.bootstrap, **superuser) as client,
    ):
        assert web.ask_lookup(topic).status_code == 503
        client.socket.sendall(frame_of(pb.Lookup(topic=topic, request_id=11)))
        found = client.receive(pb.BaseCommand.LOOKUP_RESPONSE).lookup_response
        assert found.broker_service_url == f"pulsar://{guarded_pulsar.address}"
        until(lambda: web.ask_lookup(topic).status_code == 200, "the web listener learns of the broker")
        url = web.lookup(topic)["brokerUrl"]
        assert url == f"pulsar://127.0.0.1:{gate.port + 2}"
        with RawClient(url.removeprefix("pulsar://"), **superuser) as there:
            assert there.producer(topic).HasField("producer_success")
