"""Fairness between clients of one topic: Jain's index (DEC-TR-301, 1984)."""

from typing import Any

from sluicegate_reports.transforms.slots import Slots


def jain(slots: Slots) -> dict[str, Any] | None:
    """Jain's index of what the clients of a lane got, those that got nothing too.

    :param slots: sums that tell no client (summaries) are left out.
    :return: `clients`, `jain` (1.0: all got the same; 1.0 too if none got anything); None without a client.
    """
    shares = [float(share) for client, share in slots.clients.items() if client is not None]
    if not shares:
        return None
    squares = sum(share * share for share in shares)
    index = sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else 1.0
    return {"clients": len(shares), "jain": index}
