"""Topics that clients and administrators create on a real Pulsar, and policies that apply to that."""

from contextlib import closing

import pulsar
import pytest
from tests.pulsar.real.conftest import NewNamespace
from tests.pulsar.real.support.admin import Admin, AdminError
from tests.pulsar.real.support.gate import Gate


def topics_of(admin: Admin, namespace: str) -> set[str]:
    """The topics that the broker has, by their last part."""
    return {name.rpartition("/")[2] for name in admin.get(f"/persistent/{namespace}")}


def test_only_what_policies_allow_is_created(admin: Admin, gate: Gate, new_namespace: NewNamespace) -> None:
    shut, small = new_namespace(), new_namespace()
    policies = [{"name": shut, "allow_topic_creation": False}, {"name": small, "max_partitions": 2}]
    gate.apply({"namespaces": policies})
    admin.create_topic(f"persistent://{shut}/there")

    with closing(gate.web()) as web:
        for refused, partitions in ((f"persistent://{shut}/a", 0), (f"persistent://{small}/a", 3)):
            with pytest.raises(AdminError) as found:
                web.create_topic(refused, partitions)
            assert found.value.status == 403
        web.create_topic(f"persistent://{small}/b", 2)

    with closing(pulsar.Client(gate.service_url)) as client:
        client.create_producer(f"persistent://{shut}/there").close()
        for attach in (client.create_producer, lambda topic: client.subscribe(topic, "s")):
            with pytest.raises(pulsar.NotAllowedError):
                attach(f"persistent://{shut}/b")
        client.create_producer(f"persistent://{small}/c").close()

    assert topics_of(admin, shut) == {"there"}
    assert topics_of(admin, small) == {"b-partition-0", "b-partition-1", "c"}
