"""What a front knows before its brokers have told it anything."""

import pytest
from tests.pulsar.session.wire import Bench

from sluicegate.broker import Listener
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.front import PulsarFront


@pytest.mark.parametrize(("strict", "added_ms"), [("auto", 700), ("no", 700), ("yes", 0)])
async def test_delays_are_long_enough_for_any_broker_until_it_is_known_how_they_delay(
    strict: str, added_ms: int
) -> None:
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    admin = {"url": "http://127.0.0.1:1"}
    front = PulsarFront(PulsarConfig.model_validate({**entry, "admin": admin, "strict": strict, "tick": 700}))
    await front.start(Bench())
    session = front.session(_listener(), "10.0.0.1:5000", 1)
    assert session._shared.added_delay_ms == added_ms
    await front.stop()


def _listener() -> Listener:
    return Listener("bootstrap", "127.0.0.1", 19_000, ())
