"""The `budgets` section: a URL or keys, and mistakes with their remedies."""

import pytest
from tests.config.conftest import LoadText, RefuseText

BROKER = """
brokers:
  - {name: main, system: kafka, bootstrap: [b:9092], listen: {port: 9192}}
"""


def test_a_url_stands_for_a_section(load_text: LoadText) -> None:
    budgets = load_text(f"{BROKER}budgets: redis://r:6379/0\n").config.budgets
    assert budgets is not None
    assert (budgets.url, budgets.name, budgets.lease, budgets.timeout) == (
        "redis://r:6379/0",
        "default",
        200,
        20,
    )
    assert (budgets.place_lease, budgets.on_budget_lost) == (3_000, "share")
    assert budgets.gateway_name
    assert load_text(BROKER).config.budgets is None


@pytest.mark.parametrize(
    ("section", "problem", "remedy"),
    [
        ("lease: 30ms", "'lease' is 30 ms", "from 40ms to 10s"),
        ("timeout: 60ms", "leaves no time to renew a lease of 200 ms", "at most a quarter of the lease"),
        ("place_lease: 1s", "say once a second that they are there", "write 1500ms or more"),
        ("on_budget_lost: stop", "on_budget_lost", ""),
        ("name: two words", "name", ""),
    ],
)
def test_a_mistake_is_named_with_its_remedy(
    refuse_text: RefuseText, section: str, problem: str, remedy: str
) -> None:
    [finding] = refuse_text(f"{BROKER}budgets:\n  url: redis://r\n  {section}\n")
    assert problem in f"{finding}"
    assert remedy in f"{finding}"
