"""How modes are written, and whom they concern."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.model import Mode, Operation, OperationKind, parse_mode
from sluicegate.model.mode import canary_rank


def publishing(principal: str = "alice", client: str = "web@10.0.0.1:50000") -> Operation:
    return Operation(OperationKind.PUBLISH, "orders", principal=principal, client=client)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("observe", "observe"),
        ("enforce", "enforce"),
        ("canary 10%", "canary 10% of principals"),
        (" canary  0.5% of clients ", "canary 0.5% of clients"),
        ("canary principals bob | alice", "canary principals alice|bob"),
        ("canary clients web", "canary clients web"),
        ("canary principals CN=a, O=b", "canary principals CN=a, O=b"),
    ],
)
def test_modes_are_kept_in_one_form(written: str, kept: str) -> None:
    assert str(parse_mode(written)) == kept
    assert str(parse_mode(kept)) == kept


@pytest.mark.parametrize(
    "text",
    [
        *("", "canary", "often", "observe 10%", "canary 10", "canary 0%", "canary 100%", "canary nan%"),
        *(
            "canary -1%",
            "canary inf%",
            "canary 10% of topics",
            "canary 10% clients",
            "canary principals",
            "canary clients |",
        ),
    ],
)
def test_anything_else_is_no_mode(text: str) -> None:
    with pytest.raises(ValueError, match=r"no mode|no share|neither|names no"):
        parse_mode(text)


def test_named_canaries_are_exact() -> None:
    by_principal, by_client = parse_mode("canary principals alice"), parse_mode("canary clients web")
    assert by_principal.applies_to("p", publishing())
    assert not by_principal.applies_to("p", publishing("alicea"))
    assert by_client.applies_to("p", publishing("bob"))
    assert by_client.applies_to("p", publishing(client="web@10.0.0.2:1"))
    assert not by_client.applies_to("p", publishing(client="web2@10.0.0.1:50000"))


@given(st.text(max_size=30), st.floats(0.1, 99), st.floats(0.1, 99))
def test_a_larger_share_only_adds(name: str, one: float, other: float) -> None:
    small, large = (Mode(parse_mode("canary 1%").kind, percent=share) for share in sorted((one, other)))
    op = publishing(name)
    assert large.applies_to("rate", op) or not small.applies_to("rate", op)


def test_a_share_is_about_that_share_and_no_policy_has_the_same_first_ones() -> None:
    names = [f"client-{number}" for number in range(5_000)]
    first = {policy: {name for name in names if canary_rank(policy, name) < 0.1} for policy in ("a", "b")}
    assert all(450 <= len(found) <= 550 for found in first.values())
    assert len(first["a"] & first["b"]) < 100


def test_the_order_never_changes() -> None:
    """Another order would make other clients the canary after an upgrade."""
    assert round(canary_rank("max_publish_rate", "alice"), 6) == 0.456698
