"""What a gate finds out about a real broker: that it answers, stalls and comes back."""

from pathlib import Path

from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.gate import Gate
from tests.real.reachability import check_stall


def test_a_broker_that_stalls_is_told_of_until_it_goes_on(own_pulsar: PulsarBroker, tmp_path: Path) -> None:
    with Gate(tmp_path / "gate", own_pulsar.address) as gate:
        check_stall(gate, own_pulsar)
