"""Which broker gets the next topic: the least loaded of those that may be given one."""

from sluicegate_danube.failover.values import Wish
from sluicegate_danube.failover.view import ClusterView


class Ranking:
    """The active brokers and how many topics each has, those that are given out meanwhile included.

    The fewest topics win, then the least CPU and memory in use as last reported, then the lowest id. So
    topics spread evenly even while reports are old.

    :param view: the cluster; it is not to change meanwhile.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._topics = {broker: len(view.owned.get(broker, ())) for broker in view.active()}

    def get_next_broker(self, wish: Wish) -> int | None:
        """The broker that had better have one more topic; None if no broker may.

        :param wish: what the topic's unassigned entry asks for.
        """
        if wish.target in self._topics:
            return wish.target
        return min(
            self._topics,
            # The broker that is to lose the topic keeps it if there is no other: better that than no owner.
            key=lambda broker: (
                broker == wish.without,
                self._topics[broker],
                self._view.usage(broker),
                broker,
            ),
            default=None,
        )

    def give(self, broker: int) -> None:
        """Count one more topic of a broker."""
        self._topics[broker] += 1
