"""A throttled limit: its share of a quota's tokens, its rates, and its refill."""

import pytest

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.factors import Factor
from sluicegate.engine.throttle import ThrottledLimit
from sluicegate.model import Operation, OperationKind


def publish(nbytes: int, messages: int = 1) -> Operation:
    return Operation(OperationKind.PUBLISH, "t", messages=messages, bytes=nbytes)


def halved(base: DualBucket) -> tuple[Factor, ThrottledLimit]:
    factor = Factor("disk", "")
    factor.set(0.5, "")
    return factor, ThrottledLimit(factor, base)


@pytest.mark.parametrize(
    ("charged", "left"), [(0, 500), (600, 200), (999, 0.5), (1000, 0), (1400, -400)], ids=str
)
def test_a_throttle_starts_with_its_share_of_the_tokens_and_the_whole_debt(charged: int, left: float) -> None:
    base = DualBucket(0, 1000, 1.0, 0)
    base.charge(0, charged, 0)
    _, limit = halved(base)

    limit.follow(0)

    assert limit.bucket.balance(0)[1] == left


def test_the_share_applies_to_messages_too() -> None:
    _, limit = halved(DualBucket(10, 0, 1.0, 0))

    assert limit.ready(publish(0, messages=5), 0) == 0

    assert (limit.bucket.messages_per_s, limit.bucket.balance(0)[0]) == (5, 5)


def test_tokens_refill_at_the_lowest_rate_since_the_last_look() -> None:
    factor, limit = halved(DualBucket(10, 1000, 1.0, 0))
    limit.follow(0)
    limit.charge(publish(300, messages=4), 0)

    factor.set(0.1, "")
    factor.set(0.5, "")
    limit.follow(SECOND_NS)

    assert limit.bucket.balance(SECOND_NS) == pytest.approx((1 + 1, 200 + 100))


def test_a_throttle_follows_the_rates_of_its_quota() -> None:
    base = DualBucket(10, 1000, 1.0, 0)
    _, limit = halved(base)
    limit.follow(0)

    base.reconfigure(20, 4000, 2.0, 0)
    limit.follow(0)

    bucket = limit.bucket
    assert (bucket.messages_per_s, bucket.bytes_per_s, bucket.burst_seconds) == (10, 2000, 2.0)


def test_a_small_need_does_not_overtake_a_waiter() -> None:
    base = DualBucket(0, 1000, 1.0, 0)
    _, limit = halved(base)
    limit.follow(0)
    limit.charge(publish(300), 0)
    assert limit.ready(publish(400), 0) > 0

    assert limit.ready(publish(50), 0) > 0
