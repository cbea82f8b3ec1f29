"""To whom policies apply: levels, scopes, exempt principals, and what is only observed."""

from typing import Final

from sluicegate.testing.conformance.scenarios import Ability, Scenario
from sluicegate.testing.conformance.steps import Publish

_PRODUCERS = "max_producers_per_topic"
_SIZE = "max_message_size"
_KIB = 1024

SCOPES: Final = (
    Scenario(
        name="the topic's policies over the broker's, field by field",
        shows=[_PRODUCERS, _SIZE],
        policies={_SIZE: "2KiB"},
        broker={_SIZE: "1KiB", _PRODUCERS: 1},
        steps=[
            Publish(who="a", size=2 * _KIB),
            Publish(who="a", size=2 * _KIB + 1, refused=_SIZE),
            Publish(who="b", refused=_PRODUCERS),
        ],
        decisions=[("reject", _SIZE), ("reject", _PRODUCERS)],
        counts={"published": 1, "rejected": 2},
    ),
    Scenario(
        name="a scope of clients has a count of its own",
        shows=[_PRODUCERS],
        policies={_PRODUCERS: 2},
        scopes=[{"for": {"clients": ["batch-*"]}, _PRODUCERS: 1}],
        steps=[
            Publish(who="batch-1"),
            Publish(who="batch-2", refused=_PRODUCERS),
            Publish(who="a"),
            Publish(who="b"),
            Publish(who="c", refused=_PRODUCERS),
        ],
        decisions=[("reject", _PRODUCERS)] * 2,
        counts={"producers": 3, "published": 3, "rejected": 2},
        needs=frozenset({Ability.CLIENT_ID}),
    ),
    Scenario(
        name="a scope of principals, which shares what it does not set",
        shows=[_PRODUCERS, _SIZE],
        policies={_PRODUCERS: 1, _SIZE: "1KiB"},
        scopes=[{"for": {"principals": ["batch-*"]}, _SIZE: "2KiB"}],
        steps=[
            Publish(who="a", principal="batch-1", size=2 * _KIB),
            Publish(who="a", size=2 * _KIB + 1, refused=_SIZE),
            Publish(who="b", principal="somebody", refused=_PRODUCERS),
        ],
        decisions=[("reject", _SIZE), ("reject", _PRODUCERS)],
        counts={"producers": 1, "published": 1, "rejected": 2},
        needs=frozenset({Ability.PRINCIPAL}),
    ),
    Scenario(
        name="observed only",
        shows=[_PRODUCERS, _SIZE],
        policies={_PRODUCERS: 1, _SIZE: "1KiB", "mode": "observe"},
        steps=[Publish(who="a"), Publish(who="b"), Publish(who="b", size=2 * _KIB)],
        decisions=[("would_reject", _PRODUCERS), ("would_reject", _SIZE)],
        counts={"producers": 2, "published": 3, "rejected": 0, "observed": 2},
    ),
    Scenario(
        name="a canary of clients",
        shows=[_SIZE],
        policies={_SIZE: "1KiB", "mode": {_SIZE: "canary clients canary"}},
        steps=[
            Publish(who="other", size=2 * _KIB),
            Publish(who="canary"),
            Publish(who="canary", size=2 * _KIB, refused=_SIZE),
        ],
        decisions=[("would_reject", _SIZE), ("reject", _SIZE)],
        counts={"published": 2, "rejected": 1, "observed": 1},
        needs=frozenset({Ability.CLIENT_ID}),
    ),
    Scenario(
        name="a canary of principals",
        shows=[_SIZE],
        policies={_SIZE: "1KiB", "mode": {_SIZE: "canary principals canary"}},
        steps=[
            Publish(who="a", principal="somebody", size=2 * _KIB),
            Publish(who="b", principal="canary", size=2 * _KIB, refused=_SIZE),
        ],
        decisions=[("would_reject", _SIZE), ("reject", _SIZE)],
        counts={"published": 1, "rejected": 1, "observed": 1},
        needs=frozenset({Ability.PRINCIPAL}),
    ),
    Scenario(
        name="an exempt principal skips counts and rates, not the size",
        shows=[_PRODUCERS, "max_publish_rate", _SIZE],
        policies={
            _PRODUCERS: 1,
            _SIZE: "1KiB",
            "max_publish_rate": "0.01/s",
            "burst_seconds": 100,
            "on_limit": {"max_publish_rate": "reject"},
        },
        entry={"exempt": {"principals": ["admin"]}},
        steps=[
            Publish(who="a", principal="somebody"),
            Publish(who="b", principal="somebody", refused=_PRODUCERS),
            Publish(who="c", principal="admin", times=3),
            Publish(who="c", size=2 * _KIB, refused=_SIZE),
            Publish(who="a", refused="max_publish_rate"),
        ],
        decisions=[("reject", _PRODUCERS), ("reject", _SIZE), ("reject", "max_publish_rate")],
        counts={"published": 4, "rejected": 3},
        needs=frozenset({Ability.PRINCIPAL}),
    ),
)
