"""A limit for one principal holds no other one of the same topic."""

from dataclasses import replace

from tests.bench import Bench
from tests.kafka.session.messages import batch, produce, publish
from tests.kafka.session.wire import Wire

from sluicegate.model import Level, PolicyLayer, PolicyValue, Scope, Setting, Source
from sluicegate_kafka.codec.errors import POLICY_VIOLATION

ALICE = Scope(principals=("User:alice",))


def bench_with(everybody: dict[str, PolicyValue], alice: dict[str, PolicyValue]) -> Bench:
    bench = Bench()
    layers = [
        PolicyLayer(Level.BROKER, "", {name: Setting(value, Source.FILE) for name, value in each.items()})
        for each in (everybody, alice)
    ]
    bench.set_layers(layers[0], replace(layers[1], scope=ALICE))
    return bench


def wires_of(bench: Bench) -> tuple[Wire, Wire]:
    """Two connections: Alice's, and Bob's."""
    ours = Wire(bench)
    theirs = Wire(bench, ours.shared, peer="10.0.0.2:5000")
    for wire, principal in ((ours, "User:alice"), (theirs, "User:bob")):
        wire.session.connection.accepted(principal, exempt=False)
    return ours, theirs


def test_a_rate_of_one_principal_holds_no_other() -> None:
    alice, bob = wires_of(bench_with({}, {"max_publish_rate": 1}))

    for number in range(3):
        for wire in (alice, bob):
            wire.client_sends(produce({"t": batch(b"x")}, correlation_id=number))

    assert len(alice.forwarded()) == 1
    assert len(bob.forwarded()) == 3
    alice.wait(1.01)
    assert len(alice.forwarded()) == 1


def test_the_size_of_messages_is_measured_by_the_limit_of_their_producer() -> None:
    alice, bob = wires_of(bench_with({"max_message_size": 100}, {"max_message_size": 300}))
    both = {"t": batch(b"x" * 200, b"x" * 50)}
    large = {"t": batch(b"x" * 50, b"x" * 150, b"x" * 400)}

    def code(wire: Wire, topics: dict[str, bytes]) -> int:
        return publish(wire, topics)["t", 0][0]

    for _ in range(2):  # the second request goes by the first one's
        assert code(bob, both) == POLICY_VIOLATION
        assert code(alice, both) == 0
        assert code(alice, large) == POLICY_VIOLATION
