"""Reads the usage of this machine's file systems with statvfs."""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread

from sluicegate.config.storage import StorageConfig
from sluicegate.features.storage_quota.quota import StorageReadError
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Volume


class PathSource:
    """The volumes of some directories, as one node.

    Free space is what an unprivileged process can write; space reserved for root counts as used.

    :param config: `paths` and `broker_id`.
    :param wall_ms: the wall clock.
    """

    def __init__(self, config: StorageConfig, wall_ms: Callable[[], int]) -> None:
        self._paths = config.paths
        self._broker_id = config.broker_id
        self._wall_ms = wall_ms
        self._pending: Future[tuple[Volume, ...]] | None = None

    async def read(self) -> Mapping[str, BrokerUsage]:
        """Read the usage of all paths.

        :raises StorageReadError: if one cannot be read, or the previous call is still blocked.
        """
        if self._pending is not None and not self._pending.done():
            raise StorageReadError(f"a file system does not respond: one of {', '.join(self._paths)}")
        at_ms = self._wall_ms()
        response: Future[tuple[Volume, ...]] = Future()
        self._pending = response
        # Not a pool's thread: a dead network file system can block it forever, and pools wait for theirs.
        Thread(target=self._stat, args=(response,), name="sluicegate-statvfs", daemon=True).start()
        volumes = await asyncio.shield(asyncio.wrap_future(response))
        return {self._broker_id: BrokerUsage(volumes, at_ms)}

    def _stat(self, response: "Future[tuple[Volume, ...]]") -> None:
        try:
            response.set_result(tuple(volume_of(path) for path in self._paths))
        except Exception as error:  # noqa: BLE001 - raised again where the result is awaited
            response.set_exception(error)


def volume_of(path: str) -> Volume:
    """The volume of a path, named by the path.

    :raises StorageReadError: if it cannot be read.
    """
    try:
        status = os.statvfs(path)
    except OSError as error:
        raise StorageReadError(f"{path}: {error.strerror}") from None
    capacity = status.f_blocks * status.f_frsize
    return Volume(path, capacity, capacity - status.f_bavail * status.f_frsize)
