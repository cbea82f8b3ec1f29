"""`for` in the file: whose operations some policies are for, and what cannot be for some alone."""

from collections.abc import Callable

import pytest

from sluicegate.config.errors import Finding
from sluicegate.config.load import Loaded
from sluicegate.config.policy_document import read_document
from sluicegate.model import EVERYBODY, Level, PolicyLayer, Scope

LoadText = Callable[..., Loaded]
RefuseText = Callable[..., list[Finding]]

SCOPES = """\
policies:
  broker: {max_publish_rate: 500/s}
  scopes:
    - for: {principals: [alice, team-*]}
      max_publish_rate: 5/s
      mode: observe
  namespaces:
    - name: orders
      for: {clients: "loader-*, web"}
      max_publish_rate: 7/s
  topics:
    - name: orders.created
      max_publish_rate: 9/s
    - name: orders.created
      for: {groups: [batch], principals: [bob]}
      max_publish_rate: 3/s
    - name: orders.created
      for: {groups: [batch], principals: [bob]}
      ceiling: {max_publish_rate: 2/s}
"""
ENTRY = "policies:\n  topics:\n    - name: orders.created\n      for: {principals: [alice]}\n"


def with_fields(loaded: Loaded, field: str) -> list[PolicyLayer]:
    return [layer for layer in loaded.policy_layers if field in layer.settings or field in layer.ceilings]


def test_each_entry_becomes_a_layer_of_its_level(load_text: LoadText) -> None:
    loaded = load_text(SCOPES)

    bob = Scope(principals=("bob",), groups=("batch",))
    assert [(each.level, each.name, each.scope) for each in loaded.policy_layers] == [
        (Level.BROKER, "", EVERYBODY),
        (Level.BROKER, "", Scope(principals=("alice", "team-*"))),
        (Level.NAMESPACE, "orders", Scope(clients=("loader-*", "web"))),
        (Level.TOPIC, "orders.created", EVERYBODY),
        (Level.TOPIC, "orders.created", bob),
        (Level.TOPIC, "orders.created", bob),
    ]
    assert loaded.policy_layers[2].settings["max_publish_rate"].location == "gateway.yaml:15"


def test_one_mode_for_all_policies_leaves_out_those_that_a_scope_cannot_have(load_text: LoadText) -> None:
    loaded = load_text(SCOPES)

    assert "mode.max_publish_rate" in loaded.policy_layers[1].settings
    assert "mode.connection_rate_limit" not in loaded.policy_layers[1].settings


def test_the_order_of_scopes_is_part_of_the_version(load_text: LoadText) -> None:
    def entry(principal: str) -> str:
        return f"    - {{for: {{principals: [{principal}]}}, max_publish_rate: 1}}\n"

    texts = ["policies:\n  scopes:\n" + entry(first) + entry(second) for first, second in ("ab", "ba", "ab")]
    digests = [load_text(text).rules for text in texts]

    assert digests[0] == digests[2] != digests[1]
    assert len({load_text(text).rules for text in (ENTRY, ENTRY.replace("alice", "bob"))}) == 1
    value = "      max_publish_rate: 1\n"
    assert len({load_text(t + value).rules for t in (ENTRY, ENTRY.replace("alice", "bob"))}) == 2


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        (f"{ENTRY}      fixed_delivery_delay: 5s\n", "applies to all clients of a topic, not to some", 10),
        (f"{ENTRY}      delay_clock: receive_time\n", "applies to all clients of a topic, not to some", 10),
        (f"{ENTRY}      max_subscriptions_per_topic: 5\n", "counts subscriptions", 10),
        (f"{ENTRY}      on_unknown: {{max_subscriptions_per_topic: open}}\n", "counts subscriptions", 10),
        (f"{ENTRY}      connection_rate_limit: 5\n", "applies to a whole broker, not to one topic", 10),
        ("policies: {scopes: [{max_publish_rate: 1}]}\n", "missing key 'for'", 6),
        ("policies: {scopes: [{for: {}, max_publish_rate: 1}]}\n", "'for' names nobody", 6),
        ("policies: {scopes: [{for: {groups: []}}]}\n", "'groups' is empty", 6),
        ("policies: {scopes: [{for: {users: [a]}}]}\n", "unknown key 'users'", 6),
        (
            "policies: {scopes: [{for: {groups: [a]}, connection_rate_limit: 5}]}\n",
            "applies to a whole broker, not to one scope",
            6,
        ),
    ],
)
def test_what_cannot_be_for_some_is_refused_with_its_line(
    refuse_text: RefuseText, text: str, problem: str, line: int
) -> None:
    [finding] = refuse_text(text)

    assert problem in finding.message
    assert finding.line == line
    assert finding.remedy


def test_subscriptions_are_limited_for_groups(load_text: LoadText) -> None:
    text = "policies: {scopes: [{for: {groups: [a-*]}, max_subscriptions_per_topic: 5}]}"

    assert load_text(text).policy_layers[0].settings["max_subscriptions_per_topic"].value == 5


def test_two_entries_for_everybody_are_still_refused(refuse_text: RefuseText) -> None:
    text = f"{ENTRY}    - {{name: orders.created}}\n    - {{name: orders.created}}\n"

    [finding] = refuse_text(text)

    assert finding.message == "duplicate name 'orders.created'"


def test_documents_for_the_store_have_no_scopes(load_text: LoadText, tmp_path: object) -> None:
    fields = load_text("").fields
    with pytest.raises(Exception, match="the store cannot have scopes") as refused:
        read_document(ENTRY + "      max_publish_rate: 1\n", "policies.yaml", fields)

    assert "write it in the gateway's file" in str(refused.value)
