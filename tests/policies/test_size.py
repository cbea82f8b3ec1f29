"""The size of a message."""

import pytest
from tests.policies.lab import PolicyLab, publish, verdict

from sluicegate.model import Action, Outcome

SIZE = "max_message_size"
TOO_LARGE = (Action.REJECT, SIZE, Outcome.INVALID)


@pytest.mark.seed("S1-008", "S1-050", "S1-051", "S1-101", "S1-122")
def test_equal_is_allowed_and_one_byte_more_is_not(lab: PolicyLab) -> None:
    gate = lab.gate({SIZE: 1000})

    assert gate.publish(publish(nbytes=1000), 0) is None
    refused = gate.publish(publish(nbytes=1001), 0)

    assert verdict(refused) == TOO_LARGE
    assert refused is not None
    assert refused.text.startswith(
        "Message size exceeds maximum allowed for topic /default/orders. Current: 1001 bytes, Limit: 1000 b"
    )


def test_one_message_is_limited_not_the_whole_batch(lab: PolicyLab) -> None:
    gate = lab.gate({SIZE: 1000})

    assert gate.publish(publish(10, 10_000, largest=1000), 0) is None


@pytest.mark.seed("S1-053", "S1-008")
def test_ten_mebibytes_where_nothing_is_set(lab: PolicyLab) -> None:
    gate = lab.gate({})

    assert gate.publish(publish(nbytes=10_485_760), 0) is None
    assert verdict(gate.publish(publish(nbytes=10_485_761), 0)) == TOO_LARGE


@pytest.mark.seed("S1-054")
def test_zero_is_unlimited(lab: PolicyLab) -> None:
    assert lab.gate({SIZE: 0}).publish(publish(nbytes=2**32), 0) is None


@pytest.mark.seed("S1-052")
def test_what_is_too_large_is_charged_to_no_rate(lab: PolicyLab) -> None:
    gate = lab.gate({SIZE: 1000, "max_publish_rate": 10})
    for _ in range(50):
        assert verdict(gate.publish(publish(nbytes=1001), 0)) == TOO_LARGE

    assert all(gate.publish(publish(), 0) is None for _ in range(10))


def test_exempt_principals_are_not_spared(lab: PolicyLab) -> None:
    gate = lab.gate({SIZE: 1000}, exempt=True)

    assert verdict(gate.publish(publish(nbytes=1001), 0)) == TOO_LARGE
