"""The requests that are held now, for people who look at a gateway: as JSON, the oldest first."""

from collections.abc import Callable
from typing import Any

from sluicegate.engine.held import Held, HeldOperations, holder_of
from sluicegate.model import shortened, split_client
from sluicegate.runtime.labels import LONGEST

SHOWN = 100


def held_now(held: HeldOperations, wall_ms: Callable[[int], int]) -> list[dict[str, Any]]:
    """Up to 100 held operations.

    :param wall_ms: gives milliseconds since 1970 at a monotonic time.
    :return: of each `client` (its id), `principal`, `address`, `topic`, `operation`, `policy`, and
        `since_ms`: when it was first held, in milliseconds since 1970.
    """
    return [_shown(each, wall_ms) for each, _ in zip(held, range(SHOWN), strict=False)]


def _shown(held: Held, wall_ms: Callable[[int], int]) -> dict[str, Any]:
    op = held.op
    client_id, address = split_client(op.client)
    return {
        "client": shortened(client_id, LONGEST),
        "principal": shortened(op.principal, LONGEST),
        "address": shortened(address, LONGEST),
        "topic": shortened(held.topic, LONGEST),
        "operation": op.kind.name.lower(),
        "policy": holder_of(op),
        "since_ms": wall_ms(held.since_ns),
    }
