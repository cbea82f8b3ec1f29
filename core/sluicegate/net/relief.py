"""Chooses connections to close when memory is exhausted: the largest one of the largest user each time."""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

Client = TypeVar("Client")


def largest_first(kept: Iterable[tuple[int, Hashable, Client]], excess: int) -> list[tuple[int, Client]]:
    """Choose clients whose closing frees at least `excess` bytes.

    A user with many connections is judged by all of them together, so that opening more does not help.

    :param kept: for each client its bytes, its user (principal or address) and itself.
    :param excess: bytes to free.
    :return: bytes and client, in order.
    """
    clients: dict[Hashable, list[tuple[int, int, Client]]] = defaultdict(list)
    totals: dict[Hashable, int] = defaultdict(int)
    for index, (size, user, client) in enumerate(kept):
        clients[user].append((-size, index, client))
        totals[user] += size
    users = [(-total, index, user) for index, (user, total) in enumerate(totals.items())]
    heapq.heapify(users)
    for each in clients.values():
        heapq.heapify(each)
    chosen = []
    while excess > 0 and users:
        total, index, user = heapq.heappop(users)
        size, _, client = heapq.heappop(clients[user])
        chosen.append((-size, client))
        excess += size
        if clients[user]:
            heapq.heappush(users, (total - size, index, user))
    return chosen
