"""How a gateway notices that a real broker answers, stalls and recovers."""

from pathlib import Path

from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.gate import Gate
from tests.real.reachability import check_stall, check_up, cut_off


def test_a_listener_that_asks_for_a_login_answers_the_greeting(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", f"127.0.0.1:{kafka.ports.sasl}") as gate:
        check_up(gate)
        assert cut_off(gate) == 0


def test_a_stalled_broker_is_reported_until_it_recovers(own_kafka: KafkaBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", own_kafka.bootstrap) as gate:
        check_stall(gate, own_kafka)
