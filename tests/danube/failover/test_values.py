"""Values of the cluster's keys: those that Danube writes, and others."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_danube.failover import values
from sluicegate_danube.failover.values import PlacementHint, ValueShapeError

READERS = [
    values.address_of_broker,
    values.takes_topics,
    values.usage_of_broker,
    values.hint_of_topic,
    values.leader_id,
]


def test_registrations_of_old_and_new_brokers() -> None:
    assert values.address_of_broker(b'"10.0.0.1:6650"') == "10.0.0.1:6650"
    told = {"broker_addr": "http://10.0.0.1:6650", "advertised_addr": "a:1", "admin_addr": "http://a:2"}
    assert values.address_of_broker(json.dumps(told).encode()) == "http://10.0.0.1:6650"


@pytest.mark.parametrize(("mode", "takes"), [("active", True), ("draining", False), ("drained", False)])
def test_only_an_active_broker_takes_topics(mode: str, takes: bool) -> None:
    assert values.takes_topics(json.dumps({"mode": mode, "reason": "admin"}).encode()) is takes


def test_usage_is_the_mean_of_cpu_and_memory() -> None:
    usages = [
        {"resource": "CPU", "usage": 20.0},
        {"resource": "Memory", "usage": 60},
        {"resource": "DiskIO", "usage": 9e9},
    ]
    report = {"resources_usage": usages, "topics_len": 3, "topic_list": []}
    assert values.usage_of_broker(json.dumps(report).encode()) == 40
    assert values.usage_of_broker(b'{"topics_len": 3}') == 0


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (b"null", PlacementHint()),
        (b"", PlacementHint()),
        (b'{"reason": "unload", "from_broker": 1}', PlacementHint(excluded=1)),
        (b'{"reason": "rebalance", "from_broker": 1, "to_broker": 2}', PlacementHint(excluded=1, target=2)),
    ],
)
def test_broker_preferences(value: bytes, hint: PlacementHint) -> None:
    assert values.hint_of_topic(value) == hint
    if hint.excluded is not None:
        assert values.hint_of_topic(values.hint_value(hint)) == hint


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@given(st.binary(max_size=40) | st.from_type(object).map(lambda x: json.dumps(x, default=str).encode()))
def test_a_value_is_read_or_refused(read: object, value: bytes) -> None:
    with suppress(ValueShapeError):
        read(value)  # type: ignore[operator]


@pytest.mark.parametrize("read", READERS, ids=lambda read: str(read.__name__))
@pytest.mark.parametrize(
    "value", [b"\xff", b"{", b"[" * 100_000, b'"' + b"x" * 1_048_576 + b'"', b"[1]", b"true"]
)
def test_values_of_unknown_shape_are_refused(read: object, value: bytes) -> None:
    with pytest.raises(ValueShapeError):
        read(value)  # type: ignore[operator]
