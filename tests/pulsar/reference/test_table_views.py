"""Table views of the Python client with the policies in its process, on the reference broker."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
import pytest
import yaml
from tests.pulsar.reference.running import Running

from sluicegate_pulsar.client import Client

NewClient = Callable[..., Client]
"""`new_client(topic, **policies)`: a client that applies them to that topic."""


@pytest.fixture
def new_client(shared_broker: Running, tmp_path: Path) -> NewClient:
    def make(topic: str, **policies: Any) -> Client:
        address = shared_broker.service_url.removeprefix("pulsar://")
        entry = {"name": "pulsar", "system": "pulsar", "bootstrap": [address], "listen": {"port": 6651}}
        document = {
            "state_dir": str(tmp_path / "state"),
            "brokers": [entry],
            "policies": {"topics": [{"name": topic, **policies}]},
        }
        path = tmp_path / "policies.yaml"
        path.write_text(yaml.safe_dump(document))
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        return Client(shared_broker.service_url, policies=path, logger=logger)

    return make


def test_a_table_view_counts_as_a_consumer_until_it_is_closed(new_client: NewClient, topic: str) -> None:
    with closing(new_client(topic, max_consumers_per_topic=1)) as client:
        client.create_producer(topic).send(b"v", partition_key="k")
        with closing(client.create_table_view(topic)) as view:
            assert view.get("k") == b"v"
            with pytest.raises(pulsar.exceptions.ConsumerBusy):
                client.create_table_view(topic)
        with closing(client.create_reader(topic, pulsar.MessageId.earliest)):
            pass
        assert not client._open_policies.engine.not_enforced


def test_policies_that_a_table_view_evades_are_named(
    new_client: NewClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(new_client(topic, max_dispatch_rate=1, max_publish_rate=100)) as client:
        for _ in range(2):
            client.create_table_view(topic).close()
        assert client._open_policies.engine.not_enforced == {
            "max_dispatch_rate": "a table view reads inside the C++ library"
        }
    [line] = [each.message for each in caplog.records if "not enforced" in each.message]
    assert "max_dispatch_rate" in line
