"""A broker that asks for tokens."""

from pathlib import Path

from tests.pulsar.real.support import tokens
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.raw import RawClient
from tests.real.reachability import check_up

from sluicegate_pulsar.codec.pulsar_pb2 import ServerError


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
        assert "cannot reach broker" not in gate.output()
