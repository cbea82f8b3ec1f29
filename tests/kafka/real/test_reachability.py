"""What a gate finds out about a real broker: that it answers, stalls and comes back."""

from pathlib import Path

from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.gate import Gate

_PATIENCE_S = 120


def test_a_listener_that_asks_for_a_login_answers_the_greeting(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", f"127.0.0.1:{kafka.ports.sasl}") as gate:
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "it is up", _PATIENCE_S)
        assert "cannot reach broker" not in gate.output()


def test_a_broker_that_stalls_is_told_of_until_it_goes_on(own_kafka: KafkaBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", own_kafka.bootstrap) as gate:
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "it is up", _PATIENCE_S)
        own_kafka.freeze()
        try:
            gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 0, "it stalls", _PATIENCE_S)
            assert gate.output().count("accepts connections and says nothing") == 1
        finally:
            own_kafka.thaw()
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "it goes on", _PATIENCE_S)
        assert gate.output().count("broker is reachable again") == 1
