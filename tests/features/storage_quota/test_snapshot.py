"""Snapshots: the seed's own example to the letter, what is read besides, what is refused."""

import json
import re
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.storage_quota.lab import CONSUMED, FREE, PERCENT, limits, usage

from sluicegate.features.storage_quota.snapshot import (
    BrokerUsage,
    Snapshot,
    SnapshotError,
    read_snapshot,
    write_snapshot,
)
from sluicegate.features.storage_quota.volumes import Limit, Limits, Volume

GOLDEN = (
    b'{"brokerId":"0","snapshotAt":"2022-04-07T13:00:00Z","hardLimit":{"type":"MinFreeBytes","level":1000000},'
    b'"softLimit":{"type":"MinFreePercentage","level":5},"volumes":[{"volumeName":"/dev/sdd",'
    b'"capacity":107374182400,"consumed":10737418240}]}'
)
SNAPSHOT = Snapshot(
    "0",
    usage(
        ("/dev/sdd", 107374182400, 10737418240),
        at_ms=1_649_336_400_000,
        told=limits((FREE, 1_000_000), (PERCENT, Fraction(5, 100))),
    ),
)
SCHEMA = json.loads(
    files("sluicegate.features.storage_quota").joinpath("volume-usage.schema.json").read_text()
)
DOCUMENT = Path(__file__).parents[3] / "docs" / "storage-quotas.md"


@pytest.mark.seed("S4-040", "S4-041", "S4-042", "S4-043", "S4-045")
def test_the_seeds_example_is_read_and_written_to_the_letter() -> None:
    assert read_snapshot(GOLDEN, key="0") == SNAPSHOT
    assert write_snapshot(SNAPSHOT) == GOLDEN
    [factor] = [SNAPSHOT.usage.limits.factor(volume) for volume in SNAPSHOT.usage.volumes]
    assert factor == 1.0


@pytest.mark.seed("S4-043")
def test_the_document_shows_the_seeds_example() -> None:
    [shown] = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert json.loads(shown) == json.loads(GOLDEN)


def changed(**changes: Any) -> bytes:
    """The example with other values; None takes one away."""
    told = {**json.loads(GOLDEN), **changes}
    return json.dumps({key: value for key, value in told.items() if value is not None}).encode()


@pytest.mark.seed("S4-040")
def test_unknown_keys_are_passed_over_everywhere() -> None:
    told = json.loads(GOLDEN)
    for part in (told, told["hardLimit"], told["softLimit"], told["volumes"][0]):
        part["later"] = {"x": 1}
    assert read_snapshot(json.dumps(told).encode()) == SNAPSHOT


@pytest.mark.seed("S4-025")
def test_the_older_name_is_read_and_not_written() -> None:
    older = read_snapshot(changed(hardLimit={"type": "ConsumedSpace", "level": 7}))
    assert older.usage.limits.hard == (Limit(CONSUMED, 7),)
    assert json.loads(write_snapshot(older))["hardLimit"] == {"type": "ConsumedBytes", "level": 7}


@pytest.mark.seed("S4-026")
@pytest.mark.parametrize(("level", "ratio"), [(5, Fraction(1, 20)), (5.0, Fraction(1, 20)), (0, 0), (100, 1)])
def test_a_percentage_on_the_wire_is_whole_percent(level: float, ratio: Fraction) -> None:
    found = read_snapshot(changed(softLimit={"type": "MinFreePercentage", "level": level}))
    assert found.usage.limits.soft == (Limit(PERCENT, ratio),)


@pytest.mark.seed("S4-026")
def test_a_share_between_percents_is_written_as_the_stricter_one() -> None:
    snapshot = Snapshot("0", usage(("v", 100, 0), told=limits((PERCENT, Fraction(125, 1000)))))
    assert json.loads(write_snapshot(snapshot))["hardLimit"] == {"type": "MinFreePercentage", "level": 13}


@pytest.mark.seed("S4-042")
def test_a_limit_that_is_left_out_is_none_and_a_level_that_is_left_out_is_0() -> None:
    found = read_snapshot(changed(hardLimit={"type": "MinFreeBytes"}, softLimit={})).usage.limits
    assert found == limits((FREE, 0))
    told = json.loads(write_snapshot(Snapshot("0", usage(("v", 100, 0)))))
    assert told["hardLimit"] == told["softLimit"] == {"type": "MinFreeBytes", "level": 0}


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2022-04-07T13:00:00.25Z", 1_649_336_400_250),
        ("2022-04-07T13:00:00.123456789Z", 1_649_336_400_123),
        ("2022-04-07T15:00:00+02:00", 1_649_336_400_000),
        ("2022-04-07T13:00:00", 1_649_336_400_000),
    ],
)
def test_times_are_read_as_iso_8601_allows(text: str, at_ms: int) -> None:
    assert read_snapshot(changed(snapshotAt=text)).usage.at_ms == at_ms


MALFORMED = {
    "no JSON": (b"{", "not JSON"),
    "not UTF-8": (b"\xff\xfe\xff", "not JSON"),
    "deep": (b"[" * 200_000, "not JSON"),
    "a list": (b"[]", "a snapshot is a list"),
    "too large": (b" " * (1 << 20) + b"{}", "expected at most"),
    "no broker": (changed(brokerId=None), "brokerId is missing"),
    "empty broker": (changed(brokerId=""), "brokerId is ''"),
    "no time": (changed(snapshotAt=None), "snapshotAt is missing"),
    "yesterday": (changed(snapshotAt="yesterday"), "expected a time such as"),
    "no hard limit": (changed(hardLimit=None), "hardLimit is missing"),
    "unknown type": (changed(hardLimit={"type": "MaxBytes"}), "expected one of ConsumedBytes"),
    "a list of types": (changed(hardLimit={"type": ["MinFreeBytes"]}), "expected one of ConsumedBytes"),
    "ratio as percentage": (
        changed(softLimit={"type": "MinFreePercentage", "level": 0.05}),
        "softLimit.level is 0.05, expected a whole number",
    ),
    "percentage over 100": (changed(softLimit={"type": "MinFreePercentage", "level": 101}), "0 to 100"),
    "negative level": (changed(hardLimit={"type": "MinFreeBytes", "level": -1}), "hardLimit.level is -1"),
    "NaN": (changed(hardLimit={"type": "MinFreeBytes", "level": float("nan")}), "level is nan"),
    "no volumes": (changed(volumes=None), "volumes missing"),
    "a volume without a name": (changed(volumes=[{"capacity": 1, "consumed": 1}]), "volumeName is missing"),
    "negative capacity": (
        changed(volumes=[{"volumeName": "v", "capacity": -1, "consumed": 0}]),
        "capacity is -1",
    ),
    "capacity as text": (
        changed(volumes=[{"volumeName": "v", "capacity": "1", "consumed": 0}]),
        "capacity is '1'",
    ),
    "true as bytes": (
        changed(volumes=[{"volumeName": "v", "capacity": 1, "consumed": True}]),
        "consumed is True",
    ),
    "a volume that is none": (changed(volumes=["v"]), "a volume is 'v'"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_ones_are_refused_with_what_was_expected(name: str) -> None:
    value, text = MALFORMED[name]
    with pytest.raises(SnapshotError, match=re.escape(text)):
        read_snapshot(value)


def test_the_key_must_name_the_same_broker() -> None:
    with pytest.raises(SnapshotError, match="does not match the key '1'"):
        read_snapshot(GOLDEN, key="1")


@given(
    st.binary(max_size=80)
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_nothing_else_is_raised_whatever_comes(value: bytes) -> None:
    with pytest.raises(SnapshotError):
        read_snapshot(value)


whole = st.integers(0, 2**50)
any_limit = st.builds(Limit, st.sampled_from([CONSUMED, FREE]), whole) | st.builds(
    Limit, st.just(PERCENT), st.integers(0, 100).map(lambda percent: Fraction(percent, 100))
)
snapshots = st.builds(
    Snapshot,
    st.text(min_size=1, max_size=5),
    st.builds(
        BrokerUsage,
        st.lists(st.builds(Volume, st.text(min_size=1, max_size=8), whole, whole), max_size=3).map(tuple),
        st.integers(0, 4 * 10**12),
        st.builds(Limits, any_limit.map(lambda one: (one,)), any_limit.map(lambda one: (one,))),
    ),
)


@pytest.mark.seed("S4-030", "S4-040", "S4-044")
@given(snapshots)
def test_what_is_written_fits_the_schema_and_is_read_back(snapshot: Snapshot) -> None:
    value = write_snapshot(snapshot)
    jsonschema.validate(
        json.loads(value), SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    assert read_snapshot(value, key=snapshot.broker_id) == snapshot


@pytest.mark.seed("S4-044")
def test_the_schema_checks_limits_and_accepts_what_the_seeds_accepts() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for accepted in (GOLDEN, changed(hardLimit={}), changed(hardLimit={"type": "ConsumedBytes", "more": 1})):
        jsonschema.validate(json.loads(accepted), SCHEMA)
    for refused in (
        changed(hardLimit={"type": "MaxBytes"}),
        changed(hardLimit={"level": "5"}),
        changed(volumes=[{"volumeName": "v", "capacity": -1, "consumed": 0}]),
        changed(softLimit=None),
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(refused), SCHEMA)
