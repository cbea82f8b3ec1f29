"""Ports of single brokers begin behind a port that is known."""

import pytest
from pydantic import ValidationError

from sluicegate.config.models import BrokerConfig
from sluicegate_danube.config import DanubeConfig
from sluicegate_kafka.config import KafkaConfig
from sluicegate_pulsar.config import PulsarConfig

_KINDS: dict[str, type[BrokerConfig]] = {"kafka": KafkaConfig, "pulsar": PulsarConfig, "danube": DanubeConfig}


def entry(system: str, **further: object) -> dict[str, object]:
    """An entry with two brokers, which listens on any free port."""
    base = {"name": "main", "system": system, "bootstrap": ["a:1", "b:1"], "listen": {"port": 0}}
    return base | further


@pytest.mark.parametrize("system", _KINDS)
def test_any_free_port_is_refused_where_the_ports_of_brokers_would_follow_it(system: str) -> None:
    with pytest.raises(ValidationError, match=r"'listen\.port' is 0"):
        _KINDS[system].model_validate(entry(system))


@pytest.mark.parametrize(
    ("system", "further"),
    [
        *[(system, {"node_port_base": 19_000}) for system in _KINDS],
        *[(system, {"bootstrap": ["a:1"]}) for system in ("pulsar", "danube")],
        ("danube", {"route": "metadata"}),
    ],
)
def test_any_free_port_is_taken_where_nothing_follows_it(system: str, further: dict[str, object]) -> None:
    assert _KINDS[system].model_validate(entry(system, **further)).listen.port == 0


@pytest.mark.parametrize("system", _KINDS)
def test_an_entry_for_clients_needs_no_ports(system: str) -> None:
    written = entry(system)
    del written["listen"]
    assert not _KINDS[system].model_validate(written).has_listener


@pytest.mark.parametrize("system", ["pulsar", "danube"])
def test_brokers_that_are_known_by_a_pattern_need_ports_too(system: str) -> None:
    with pytest.raises(ValidationError, match=r"'listen\.port' is 0"):
        _KINDS[system].model_validate(entry(system, bootstrap=["a:1"], known_brokers=["*.local:1"]))
