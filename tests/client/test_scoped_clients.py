"""Policies for some clients alone, in the processes of clients."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns

import pytest

from sluicegate.client.open_policies import OpenPolicies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver

FILE = """
brokers: [{{name: shop, system: pulsar, bootstrap: ["127.0.0.1:1"]}}]
state_dir: {state}
policies:
  scopes:
    - for: {{principals: [ann], groups: [mine]}}
      max_unacked_messages_per_consumer: 1
    - for: {{clients: [batch]}}
      max_dispatch_rate: 5
"""
TOPIC = "persistent://public/default/orders"
SECOND = 1_000_000_000


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenPolicies]:
    file = tmp_path / "policies.yaml"
    file.write_text(FILE.format(state=tmp_path / "state"))
    policies = OpenPolicies(file, "pulsar", None)
    yield policies
    policies.close()


def test_acknowledgements_count_for_those_whose_scope_limits_them(opened: OpenPolicies) -> None:
    ann, bob = (PolicedClient(opened.engine, name, "", None) for name in ("ann", "bob"))
    mine, other, bobs = (
        Receiver(ann, TOPIC, "mine"),
        Receiver(ann, TOPIC, "other"),
        Receiver(bob, TOPIC, "mine"),
    )
    now_ns = monotonic_ns()
    assert [each.counts_unacked(now_ns) for each in (mine, other, bobs)] == [True, False, False]
    assert mine.wait_ns(10, 0, now_ns) == 0
    assert mine.wait_ns(10, 0, now_ns) > 0
    mine.acknowledged(1, now_ns)
    assert mine.wait_ns(10, 0, now_ns + SECOND) == 0


def test_the_policies_of_a_client_are_those_of_its_scopes(opened: OpenPolicies) -> None:
    now_ns = monotonic_ns()
    for name, rate in (("batch", 5), ("web", 0)):
        client = PolicedClient(opened.engine, "ann", name, None)
        assert client.policies(TOPIC, now_ns).number("max_dispatch_rate") == rate
