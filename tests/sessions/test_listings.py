"""Lists of subscriptions: how long one counts as new, and when one is needed."""

from sluicegate.sessions.listings import _MAX_TOPICS, Listings

_S = 1_000_000_000


def test_an_answer_is_fresh_for_as_long_as_it_is_valid() -> None:
    listings = Listings(valid_ns=_S)
    assert not listings.fresh("t", 5 * _S)
    listings.answered("t", 5 * _S)
    assert listings.fresh("t", 5 * _S)
    assert listings.fresh("t", 6 * _S)
    assert not listings.fresh("t", 6 * _S + 1)
    assert not listings.fresh("u", 5 * _S)


def test_an_answer_that_is_outdated_is_not_fresh() -> None:
    listings = Listings()
    listings.answered("t", _S)
    listings.outdated("t")
    listings.outdated("never told")
    assert not listings.fresh("t", _S)


def test_the_topic_told_of_longest_ago_is_forgotten_first() -> None:
    listings = Listings()
    for number in range(_MAX_TOPICS):
        listings.answered(str(number), _S)
    listings.answered("0", _S)
    listings.answered("one more", _S)
    assert listings.fresh("0", _S)
    assert not listings.fresh("1", _S)
    assert listings.fresh("2", _S)
    assert listings.fresh("one more", _S)
