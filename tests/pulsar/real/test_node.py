"""A node starts, whatever its clients do meanwhile."""

from pathlib import Path

import pytest
from tests.pulsar.real.support.broker import PulsarBroker

pytestmark = pytest.mark.slow
SCHEMA = "Initializing 'org/apache/pulsar/client/api/Schema'"
BROKER = "Initializing 'org/apache/pulsar/broker/service/BrokerService'"


def test_schemas_are_there_before_clients_are_served(pulsar_libs: None, tmp_path: Path) -> None:
    """Otherwise two threads may wait for each other's class for ever, if clients come back as it starts."""
    classes = tmp_path / "classes"
    with PulsarBroker(tmp_path / "node", jvm=[f"-Xlog:class+init=info:file={classes}"]):
        order = classes.read_text()
    assert 0 < order.index(SCHEMA) < order.index(BROKER)
