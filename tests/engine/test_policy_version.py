"""A version of policies is a digest of the rules."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.model import Level, PolicyLayer, Setting, Source, digest_of, policy_version, version_text

BASE = PolicyLayer(Level.TOPIC, "t", {"rate": Setting(5, Source.FILE, "gateway.yaml:3")})


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, name="u"),
        replace(BASE, level=Level.NAMESPACE),
        replace(BASE, broker="b"),
        replace(BASE, settings={"rate": Setting(6, Source.FILE)}),
        replace(BASE, settings={"rate": Setting(5.0, Source.FILE)}),
        replace(BASE, settings={"rate": Setting(5, Source.STORE)}),
        replace(BASE, settings={"rate": Setting(5, Source.FILE, locked=True)}),
        replace(BASE, settings={}, ceilings=BASE.settings),
    ],
)
def test_another_rule_is_another_version(other: PolicyLayer) -> None:
    assert digest_of([other]) != digest_of([BASE])


def test_place_and_order_do_not_count() -> None:
    moved = replace(BASE, settings={"rate": Setting(5, Source.FILE, "gateway.yaml:9")})
    other = replace(BASE, name="u")
    assert digest_of([moved, other]) == digest_of([other, BASE])


@given(st.lists(st.binary(max_size=9), max_size=4))
def test_a_version_is_exact_as_a_double_and_shown_with_twelve_digits(parts: list[bytes]) -> None:
    version = policy_version(*parts)
    assert int(float(version)) == version
    assert (len(version_text(version)), int(version_text(version), 16)) == (12, version)


def test_parts_do_not_run_together() -> None:
    assert policy_version(b"ab", b"c") != policy_version(b"a", b"bc")
