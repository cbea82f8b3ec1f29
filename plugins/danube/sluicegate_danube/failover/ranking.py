"""Which broker gets the next topic: the least loaded of those that may be given one."""

from sluicegate_danube.failover.values import PlacementHint
from sluicegate_danube.failover.view import ClusterView

_BUSY = 70.0
"""CPU and memory in use, in percent, from which on a broker is spared."""


class Ranking:
    """The active brokers and how many topics each has, those that are given out meanwhile included.

    A broker's load is the number of its topics. If it reports more than 70 % of CPU and memory in use, each
    topic counts for more, up to twice at 100 %. A broker without a report counts by its topics alone.

    The least loaded wins, then the one that uses least, then the lowest id. So topics spread evenly over
    brokers that have room, even while their reports are old.

    :param view: the cluster; it is not to change meanwhile.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._topics = {broker: len(view.owned.get(broker, ())) for broker in view.active()}
        self._weights = {broker: _weight(view.usage(broker)) for broker in self._topics}

    def get_next_broker(self, hint: PlacementHint) -> int | None:
        """The best broker for one more topic; None if there is none.

        :param hint: what the topic's unassigned entry asks for.
        """
        if hint.target in self._topics:
            return hint.target
        return min(
            self._topics,
            # The broker that is to lose the topic keeps it if there is no other: better that than no owner.
            key=lambda broker: (
                broker == hint.excluded,
                (self._topics[broker] + 1) * self._weights[broker],
                self._view.usage(broker),
                broker,
            ),
            default=None,
        )

    def give(self, broker: int) -> None:
        """Count one more topic of a broker."""
        self._topics[broker] += 1


def _weight(usage: float) -> float:
    """What one topic counts for on a broker that uses so much, in percent."""
    return 1 + max(0.0, min(usage, 100.0) - _BUSY) / (100.0 - _BUSY)
