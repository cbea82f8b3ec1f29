"""Reads the usage of volumes from a Prometheus server, for instance from node_exporter or a JMX exporter."""

import json
import math
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from sluicegate.config.models import BrokerTls
from sluicegate.config.storage import StorageConfig
from sluicegate.config.tls import context_for_broker
from sluicegate.features.storage_quota.quota import StorageReadError
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Volume
from sluicegate.host.http_get import HttpError, http_get, shown_url

MAX_VOLUMES = 10_000
TlsFor = Callable[[BrokerTls], ssl.SSLContext]
_Key = tuple[str, str]
"""Node id and name of the volume."""


class PrometheusSource:
    """Runs two queries and matches their series by the labels of node and volume.

    A series without a match fails the whole reading: a missing volume would go unnoticed otherwise.

    :param config: URL, queries and labels.
    :param wall_ms: the wall clock.
    :param tls_for: creates a TLS context that trusts given authorities.
    """

    def __init__(
        self, config: StorageConfig, wall_ms: Callable[[], int], tls_for: TlsFor = context_for_broker
    ) -> None:
        self._config = config
        self._wall_ms = wall_ms
        self._tls_for = tls_for

    async def read(self) -> Mapping[str, BrokerUsage]:
        """Run both queries.

        :raises StorageReadError: if there is no response, or it lacks the usage of a volume.
        """
        config = self._config
        at_ms = self._wall_ms()
        second = config.consumed_query or config.free_query or ""
        capacities = await self._query(config.capacity_query or "")
        others = await self._query(second)
        if not capacities:
            raise StorageReadError("capacity_query returns no volume")
        if alone := capacities.keys() ^ others.keys():
            broker, name = min(alone)
            which = "capacity" if (broker, name) in others else "usage"
            raise StorageReadError(f"broker {broker} volume {name} has no {which}")
        volumes: dict[str, list[Volume]] = {}
        for (broker, name), capacity in sorted(capacities.items()):
            other = others[broker, name]
            used = other if config.consumed_query is not None else capacity - other
            volumes.setdefault(broker, []).append(Volume(name, capacity, used))
        return {broker: BrokerUsage(tuple(of_broker), at_ms) for broker, of_broker in volumes.items()}

    async def _query(self, query: str) -> dict[_Key, int]:
        config = self._config
        url = f"{(config.url or '').rstrip('/')}/api/v1/query?query={quote(query, safe='')}"
        tls = self._trusting(config.ca) if config.ca is not None else None
        try:
            response = await http_get(url, timeout_s=config.timeout / 1000, token=config.token, tls=tls)
            return self._values(json.loads(response))
        except HttpError as error:
            raise StorageReadError(str(error)) from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise StorageReadError(f"{shown_url(url)} does not respond like Prometheus: {error!r}") from None

    def _values(self, response: Any) -> dict[_Key, int]:
        data = response["data"]
        if response["status"] != "success" or data["resultType"] != "vector":
            raise StorageReadError(
                f"a query must return an instant vector, not {str(data.get('resultType'))[:40]}"
            )
        if len(data["result"]) > MAX_VOLUMES:
            raise StorageReadError(f"a query returns more than {MAX_VOLUMES} volumes")
        values: dict[_Key, int] = {}
        for series in data["result"]:
            key = self._key(series["metric"])
            value = float(series["value"][1])
            if not math.isfinite(value) or value < 0:
                raise StorageReadError(f"broker {key[0]} volume {key[1]} has {value} bytes")
            if key in values:
                raise StorageReadError(
                    f"a query returns broker {key[0]} volume {key[1]} twice: sum it by labels"
                )
            values[key] = int(value)
        return values

    def _key(self, labels: Mapping[str, str]) -> _Key:
        config = self._config
        for label in (config.broker_label, config.volume_label):
            if label not in labels:
                present = ", ".join(sorted(labels)) or "none"
                raise StorageReadError(
                    f"a query's series has no label {label!r}, its labels are: {present[:200]}"
                )
        return labels[config.broker_label], labels[config.volume_label]

    def _trusting(self, ca: str) -> ssl.SSLContext:
        try:
            return self._tls_for(BrokerTls(ca=ca))
        except OSError as error:  # ssl.SSLError is one
            raise StorageReadError(str(error)) from None
