"""What messages say: headers and schemas."""

from typing import Final

from sluicegate.testing.conformance.scenarios import Ability, Scenario
from sluicegate.testing.conformance.steps import Publish, Receive, Subscribe

_HEADERS = frozenset({Ability.HEADERS})

CONTENTS: Final = (
    Scenario(
        name="headers that must be there",
        shows=["required_headers"],
        policies={"required_headers": ["trace-id"]},
        steps=[
            Publish(who="a", headers={"other": b"1"}, refused="required_headers"),
            Publish(who="a", headers={"trace-id": b"1"}),
        ],
        decisions=[("reject", "required_headers")],
        counts={"published": 1, "rejected": 1},
        needs=_HEADERS,
    ),
    Scenario(
        name="headers that must not be there",
        shows=["forbidden_headers"],
        policies={"forbidden_headers": ["x-debug-*"]},
        steps=[
            Publish(who="a", headers={"x-debug-dump": b"1"}, refused="forbidden_headers"),
            Publish(who="a", headers={"x-other": b"1"}),
        ],
        decisions=[("reject", "forbidden_headers")],
        counts={"published": 1, "rejected": 1},
        needs=_HEADERS,
    ),
    Scenario(
        name="headers that are taken off",
        shows=["remove_headers"],
        policies={"remove_headers": ["x-internal-*"]},
        steps=[
            Subscribe(who="c"),
            Publish(who="a", headers={"kept": b"1", "x-internal-host": b"2"}),
            Publish(who="a", headers={"kept": b"1"}),
            Receive(who="c", count=2, headers={"kept": b"1"}),
        ],
        decisions=[("rewrite", "remove_headers")],
        counts={"published": 2},
        needs=_HEADERS,
    ),
    Scenario(
        name="schemas",
        shows=["allowed_content"],
        policies={"allowed_content": ["7"]},
        steps=[
            Publish(who="a", size=20, refused="allowed_content"),
            Publish(who="a", size=20, schema="8", refused="allowed_content"),
            Publish(who="a", size=20, schema="7"),
        ],
        decisions=[("reject", "allowed_content")] * 2,
        counts={"published": 1, "rejected": 2},
        needs=frozenset({Ability.SCHEMA}),
    ),
)
