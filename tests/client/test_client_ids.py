"""Policies that go by clients' ids, in the processes of clients."""

from pathlib import Path
from time import monotonic_ns

import pytest

from sluicegate.client.open_policies import OpenPolicies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.model import OperationKind
from sluicegate.sessions.work import Running

FILE = """
brokers: [{{name: shop, system: kafka, bootstrap: ["127.0.0.1:1"], listen: {{port: 2}}}}]
state_dir: {state}
policies: {{broker: {{client_id_pattern: team-a-*}}}}
"""


def test_a_client_attaches_by_the_id_that_its_application_gives_it(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(FILE.format(state=tmp_path / "state"))
    opened = OpenPolicies(file, "kafka", None)

    def attach(name: str) -> None:
        running: Running[None] = Running(monotonic_ns())
        client = PolicedClient(opened.engine, "User:ann", name, None)
        running.begin(client.attaching(running, OperationKind.ATTACH_PRODUCER, "orders.eu"))

    attach("team-a-1")
    for name, shown in (("team-b-1", "team-b-1"), ("", r"\(none\)")):
        with pytest.raises(RefusedError, match=f"Client id {shown} may not use topic"):
            attach(name)
    opened.close()
