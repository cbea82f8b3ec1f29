"""Finds brokers with more workers than there are cores for them."""

import os
from collections.abc import Iterable, Iterator

from sluicegate.config.errors import Finding
from sluicegate.config.models import BrokerConfig
from sluicegate.config.tree import Node


def worker_findings(
    root: Node, brokers: Iterable[tuple[int, BrokerConfig]], cores: int | None = None
) -> Iterator[Finding]:
    """Warn of entries with more workers than cores: they take turns, and each costs memory.

    :param root: the whole file.
    :param brokers: the entries, each with its index.
    :param cores: how many this process may use; asked of the system if None.
    """
    cores = cores or len(os.sched_getaffinity(0))
    for index, broker in brokers:
        if broker.workers > cores > 0:
            path = ("brokers", index, "workers")
            what = "core" if cores == 1 else "cores"
            yield root.nearest(path).error(
                path,
                f"broker {broker.name!r} has {broker.workers} workers, and the gateway has {cores} {what}",
                "write 'workers: auto' for one worker for each core",
                "warning",
            )
