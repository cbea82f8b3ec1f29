"""What members tell of their grants: tokens that they got anew, a second."""

from tests.leasing.fleet import MS, Fleet

S = 1000 * MS
RATE = {"max_publish_rate": "1000/s"}


def _told(fleet: Fleet) -> list[float]:
    limits = [who.holder.tokens.busiest(50, fleet.now_ns) for who in fleet.members]
    return [messages for each in limits for messages, _ in each.values()]


def test_all_that_members_were_granted_is_no_more_than_the_limit() -> None:
    fleet = Fleet(RATE, gateways=3)

    def offer() -> None:
        for who in fleet.members:
            for _ in range(40 - len(who.held)):
                fleet.offer(who)

    fleet.pass_time(3 * S, each_step=offer)
    _told(fleet)
    fleet.pass_time(1 * S, each_step=offer)
    told = _told(fleet)
    assert len(told) == 3
    assert 950 <= sum(told) <= 1050
    assert _told(fleet) == told, "who asks again at once is told the same"


def test_tokens_that_are_kept_unspent_count_once() -> None:
    fleet = Fleet(RATE)
    for _ in range(20):
        fleet.offer(fleet.members[0])
        fleet.pass_time(100 * MS)
    _told(fleet)
    for _ in range(10):
        fleet.offer(fleet.members[0])
        fleet.pass_time(100 * MS)
    [told] = _told(fleet)
    assert 5 <= told <= 15, "ten messages passed in this second"
