"""Where something was decided: which gateway, on which host, in which of its workers."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sluicegate_reports.transforms.packed import Piece


class Place(NamedTuple):
    """A process that decides. What clients tell has none of these."""

    gateway: str = ""
    host: str = ""
    """Empty in a log of version 1."""
    worker: int = 0

    @property
    def clock(self) -> tuple[str, str]:
        """Whose clock it reads: the workers of a gateway on one host have the same."""
        return self.gateway, self.host


PLACE_COLUMNS = ("gateway", "host", "worker")
"""Columns that `by_place` needs."""


def by_place(piece: Piece) -> Iterator[tuple[Place, Piece]]:
    """The rows of each place."""
    gateway, host, worker = piece.text("gateway"), piece.text("host"), piece.number("worker")
    columns = gateway.codes.astype(np.int64), host.codes.astype(np.int64), worker
    keys, number = np.unique(np.stack(columns), axis=1, return_inverse=True)
    places = keys.T.tolist()
    for index, (of_gateway, of_host, of_worker) in enumerate(places):
        place = Place([*gateway.names, ""][of_gateway], [*host.names, ""][of_host], of_worker)
        yield place, piece if len(places) == 1 else piece.where(number.reshape(-1) == index)


def names(places: Iterable[Place]) -> dict[Place, str]:
    """A name for each place, which tells no more than sets them apart."""
    known = sorted(set(places))
    hosts = len({place.host for place in known}) > 1
    workers = len({place.worker for place in known}) > 1
    return {
        place: place.gateway
        + (f" on {place.host or 'an unnamed host'}" if hosts else "")
        + (f", worker {place.worker}" if workers else "")
        for place in known
    }
