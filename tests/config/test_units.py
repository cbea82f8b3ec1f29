"""Numbers as people write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from sluicegate.config.models import Decisions, GatewayConfig
from sluicegate.config.units import (
    BYTE_RATE,
    COUNT,
    DURATION,
    MESSAGE_RATE,
    SIZE,
    U32_MAX,
    Address,
    Unit,
    parse_address,
)

UNITS = (COUNT, MESSAGE_RATE, BYTE_RATE, SIZE, DURATION)


@pytest.mark.parametrize(
    ("unit", "text", "amount"),
    [
        (COUNT, "12", 12),
        (COUNT, 0, 0),
        (COUNT, U32_MAX, U32_MAX),
        (MESSAGE_RATE, "500/s", 500),
        (MESSAGE_RATE, "500", 500),
        (MESSAGE_RATE, "1.5k/s", 1_500),
        (MESSAGE_RATE, "10M/s", 10_000_000),
        (BYTE_RATE, "10MiB/s", 10 * 2**20),
        (BYTE_RATE, "10 MB/s", 10_000_000),
        (SIZE, "10MiB", 10_485_760),
        (SIZE, "1.5KiB", 1_536),
        (SIZE, "1_000B", 1_000),
        (DURATION, "30s", 30_000),
        (DURATION, "500ms", 500),
        (DURATION, "1h", 3_600_000),
        (DURATION, 250, 250),
        (MESSAGE_RATE, "30/min", 0.5),
        (MESSAGE_RATE, "0.5/s", 0.5),
        (MESSAGE_RATE, 0.5, 0.5),
        (MESSAGE_RATE, 5.0, 5),
        (MESSAGE_RATE, "6k/min", 100),
        (MESSAGE_RATE, "7/h", 7 / 3_600),
        (BYTE_RATE, "60MB/min", 1_000_000),
    ],
)
def test_values_are_read_in_base_units(unit: Unit, text: object, amount: float) -> None:
    parsed = unit.parse(text)
    assert (parsed, type(parsed)) == (amount, type(amount))


@pytest.mark.seed("S1-013")
@pytest.mark.parametrize(
    ("unit", "value", "problem", "remedy"),
    [
        (COUNT, -1, "-1 is negative", "0 for unlimited"),
        (COUNT, "-1", "'-1' is negative", "0 for unlimited"),
        (COUNT, "unlimited", "'unlimited' is not a whole number", "0 for unlimited"),
        (MESSAGE_RATE, " Unlimited", "is not a number of messages per second", "0 for unlimited"),
        (DURATION, "none", "'none' is not a whole number of milliseconds", "0 for none"),
        (COUNT, 1.5, "1.5 is not a whole number", "such as 100"),
        (COUNT, 2.0, "2.0 is not a whole number", "such as 100"),
        (COUNT, True, "True is not a whole number", "such as 100"),
        (COUNT, U32_MAX + 1, "4294967296 is too large: at most 4294967295", "0 for unlimited"),
        (COUNT, "10k", "unknown unit 'k'", "such as 100"),
        (MESSAGE_RATE, "10MiB/s", "unknown unit 'MiB'", "M"),
        (MESSAGE_RATE, "500/m", "'500/m' is not a number of messages per second", "'500/s'"),
        (MESSAGE_RATE, "30/d", "'30/d' is not a number of messages per second", "'30/min'"),
        (SIZE, "30/min", "'30/min' is not a whole number of bytes", "'10MiB'"),
        (BYTE_RATE, "5GiB/s", "'5GiB/s' is too large", "0 for unlimited"),
        (SIZE, "10M", "unknown unit 'M'", "did you mean 'MB'?"),
        (SIZE, "10mib", "unknown unit 'mib'", "did you mean 'MiB'?"),
        (SIZE, "10MiB/s", "'10MiB/s' is not a whole number of bytes", "'10MiB'"),
        (SIZE, "0.3KiB", "'0.3KiB' is not a whole number of bytes", "'10MiB'"),
        (SIZE, "9" * 5_000, "is not a whole number of bytes", "'10MiB'"),
        (SIZE, None, "None is not a whole number of bytes", "'10MiB'"),
        (SIZE, [1], "[1] is not a whole number of bytes", "'10MiB'"),
        (DURATION, "1:30", "'1:30' is not a whole number of milliseconds", "'30s'"),
        (DURATION, "367d", "'367d' is too large: at most 366d", "0 for unlimited"),
    ],
)
def test_what_is_no_such_number_is_refused_with_a_remedy(
    unit: Unit, value: object, problem: str, remedy: str
) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        unit.parse(value)
    assert refused.value.context is not None
    assert problem in refused.value.context["problem"]
    assert remedy in refused.value.context["remedy"]


@given(st.sampled_from(UNITS), st.data())
def test_text_is_read_back_unchanged(unit: Unit, data: st.DataObject) -> None:
    amount = data.draw(st.integers(0, unit.maximum))
    assert unit.parse(unit.text(amount)) == amount


@given(st.integers(1, 10**6), st.integers(0, 3), st.sampled_from(["s", "min", "h"]))
def test_a_fraction_is_read_back_unchanged(number: int, places: int, period: str) -> None:
    amount = MESSAGE_RATE.parse(f"{number / 10**places:.3f}/{period}")
    assert MESSAGE_RATE.parse(MESSAGE_RATE.text(amount)) == amount


@pytest.mark.parametrize(("amount", "text"), [(0.5, "30/min"), (7 / 3_600, "7/h"), (1.25, "75/min")])
def test_a_rate_below_one_a_second_is_shown_for_a_longer_time(amount: float, text: str) -> None:
    assert MESSAGE_RATE.text(amount) == text


@given(st.sampled_from(UNITS), st.data())
def test_round_amounts_are_written_with_the_largest_unit(unit: Unit, data: st.DataObject) -> None:
    suffix, factor = data.draw(st.sampled_from(list(unit.suffixes.items()) or [("", 1)]))
    amount = data.draw(st.integers(1, unit.maximum // factor))
    assert unit.parse(f"{amount}{suffix}") == amount * factor
    assert len(unit.text(amount * factor)) <= len(f"{amount * factor}{'B' if unit is SIZE else 'ms'}/s")


@given(st.sampled_from(UNITS), st.text() | st.floats() | st.none() | st.integers())
def test_any_value_is_read_or_refused(unit: Unit, value: object) -> None:
    try:
        amount = unit.parse(value)
    except PydanticCustomError as refused:
        amount = 0 if refused.context and refused.context["problem"] else -1
    assert 0 <= amount <= unit.maximum


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "broker.example:1", "[::1]:65535", "localhost:9092"])
def test_addresses_are_read_and_written_alike(text: str) -> None:
    assert str(parse_address(text)) == text


def test_an_ipv6_address_loses_its_brackets() -> None:
    assert parse_address("[fe80::1]:9092") == Address("fe80::1", 9092)


@pytest.mark.parametrize(
    "value", ["", "host", "host:", ":1", "host:0", "host:65536", "::1:9092", "a b:1", 9092]
)
def test_an_invalid_address_is_refused(value: object) -> None:
    with pytest.raises(PydanticCustomError, match=re.escape(f"{value!r} is not an address")):
        parse_address(value)


def test_what_a_field_demands_besides_its_unit_holds() -> None:
    for value in (0, "0"):
        with pytest.raises(ValidationError, match="greater than 0"):
            Decisions.model_validate({"max_rows_queued": value})
    assert Decisions.model_validate({"max_rows_queued": "7"}).max_rows_queued == 7


@pytest.mark.parametrize("written", [30, "999ms"])
def test_a_worker_has_a_second_to_respond(written: object) -> None:
    with pytest.raises(ValidationError, match="at least 1s"):
        GatewayConfig.model_validate({"brokers": [], "worker_timeout": written})
