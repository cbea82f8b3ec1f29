"""The gate's own questions to a cluster's admin API: its brokers, a topic's subscriptions, how it delays.

Only this file and the web listener need an HTTP client (extra `pulsar`); without an answer policies that need
it act by their `on_unknown`.
"""

import ssl
from typing import Any
from urllib.parse import quote

import httpx

from sluicegate_pulsar.brokers import address_of
from sluicegate_pulsar.config import Admin

_TIMEOUT_S = 5.0


class AdminApi:
    """Asks one cluster under the gate's own identity.

    :param config: address and token.
    :param tls: what to speak with `https:` addresses; the system's defaults if None.
    """

    def __init__(self, config: Admin, tls: ssl.SSLContext | None) -> None:
        headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
        self._client = httpx.AsyncClient(
            base_url=config.url, headers=headers, timeout=_TIMEOUT_S, verify=tls if tls is not None else True
        )

    async def broker_hosts(self) -> set[str]:
        """Hosts of the brokers that are up, in all clusters that the API knows.

        :raises httpx.HTTPError: if it cannot be asked.
        """
        hosts: set[str] = set()
        for cluster in await self._get("/admin/v2/clusters"):
            for broker in await self._get(f"/admin/v2/brokers/{quote(cluster, safe='')}"):
                hosts.add(address_of(broker)[0])
        return hosts

    async def subscriptions(self, topic: str) -> set[str]:
        """Names of a topic's subscriptions; none if the topic does not exist yet.

        :param topic: full name, `persistent://tenant/namespace/topic`.
        :raises httpx.HTTPError: if it cannot be asked.
        """
        domain, _, path = topic.partition("://")
        tenant, namespace, local = path.split("/", 2)
        place = f"/admin/v2/{domain}/{tenant}/{namespace}/{quote(local, safe='')}/subscriptions"
        try:
            return set(await self._get(place))
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return set()
            raise

    async def configuration(self) -> dict[str, str]:
        """A broker's configuration as it runs.

        :raises httpx.HTTPError: if it cannot be asked, such as for want of superuser rights.
        """
        found = await self._get("/admin/v2/brokers/configuration/runtime")
        return {str(name): str(value) for name, value in found.items()}

    async def _get(self, path: str) -> Any:
        response = await self._client.get(path)
        response.raise_for_status()
        return response.json()

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()
