"""What a gateway finds out about a real broker: that it answers, stalls and comes back."""

from pathlib import Path

from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.gate import Gate
from tests.real.reachability import check_stall


def test_a_stalled_broker_is_reported_until_it_recovers(own_pulsar: PulsarBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", own_pulsar.address) as gate:
        check_stall(gate, own_pulsar)
