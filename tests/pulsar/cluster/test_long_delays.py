"""Fixed delays that the brokers will refuse are named in the log, each once."""

import pytest

from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source
from sluicegate_pulsar.cluster.long_delays import LongDelays


def policies(observe_only: bool = False, **by_topic: int) -> PolicySet:
    layers = tuple(
        PolicyLayer(Level.TOPIC, name, {"fixed_delivery_delay": Setting(value, Source.FILE)})
        for name, value in by_topic.items()
    )
    return PolicySet(1, layers, observe_only)


def test_a_delay_above_the_brokers_limit_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    delays, first = LongDelays(), policies(orders=9_000, short=5_000)
    delays.warn(first)
    assert caplog.messages == []  # the brokers have not told their limit
    delays.longest_ms = 5_000
    for _ in range(3):
        delays.warn(first)
    [line] = caplog.messages
    assert "topic orders is 9000 ms, but the brokers refuse messages with more than 5000 ms" in line
    delays.warn(policies(orders=9_000, other=6_000))
    assert len(caplog.messages) == 2
    assert "topic other is 6000 ms" in caplog.messages[1]


def test_a_delay_that_is_only_observed_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    delays = LongDelays()
    delays.longest_ms = 5_000
    delays.warn(policies(observe_only=True, orders=9_000))
    assert caplog.messages == []
