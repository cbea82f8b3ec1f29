"""What a gate finds out about a real broker: that it answers, stalls and comes back."""

from pathlib import Path

from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.gate import Gate

_PATIENCE_S = 120


def test_a_broker_that_asks_for_tokens_answers_the_greeting(
    guarded_pulsar: PulsarBroker, tmp_path: Path
) -> None:
    with Gate(tmp_path / "gate", guarded_pulsar.address) as gate:
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "it is up", _PATIENCE_S)
        assert "cannot reach broker" not in gate.output()


def test_a_broker_that_stalls_is_told_of_until_it_goes_on(own_pulsar: PulsarBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", own_pulsar.address) as gate:
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "it is up", _PATIENCE_S)
        own_pulsar.freeze()
        try:
            gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 0, "it stalls", _PATIENCE_S)
            assert gate.output().count("accepts connections and says nothing") == 1
        finally:
            own_pulsar.thaw()
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "it goes on", _PATIENCE_S)
        assert gate.output().count("broker is reachable again") == 1
