"""A limit for one principal holds no other one of the same topic."""

from tests.pulsar.session.messages import connect, connected, producer, producer_success, send
from tests.pulsar.session.test_handshake import token
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.model import Level, PolicyLayer, Scope, Setting, Source


def opened(bench: Bench, principal: str) -> Wire:
    """A connection with a producer, of a principal that the broker has accepted."""
    wire = Wire(bench, is_open=False)
    wire.client_sends(connect(auth_method_name="token", auth_data=token(sub=principal)))
    wire.broker_sends(connected())
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.sent_up()
    return wire


def test_a_rate_and_a_size_of_one_principal_hold_no_other() -> None:
    bench = Bench()
    limits = {"max_publish_rate": 1, "max_message_size": 100}
    settings = {name: Setting(value, Source.FILE) for name, value in limits.items()}
    bench.set_layers(PolicyLayer(Level.BROKER, "", settings, scope=Scope(principals=("anna",))))
    anna, bert = opened(bench, "anna"), opened(bench, "bert")

    for wire in (anna, bert):
        wire.client_sends(send(0), send(1), send(2))

    assert len(anna.sent_up()) == 1
    assert len(bert.sent_up()) == 3
    anna.wait(1.01)
    assert len(anna.sent_up()) == 1
