"""The gateway's own requests to a cluster's admin API: brokers, subscriptions, delays, backlogs.

Requests are few and small, and an HTTP client library would take more memory than the gateway itself, so
each request opens its own connection. Without a response, the policies that need it follow their
`on_unknown`.
"""

import asyncio
import ssl
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urljoin

import orjson

from sluicegate.http_get import exchange, shown_url
from sluicegate_pulsar.cluster.brokers import address_of
from sluicegate_pulsar.config import Admin

_TIMEOUT_S = 5.0
_LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes; a topic with half a million subscriptions answers with fewer."""
_REDIRECTS = 3
"""A broker sends questions on topics that it does not serve to the broker that does."""


class AdminApiError(Exception):
    """A request failed; the message says why.

    :param status: the response's status; 0 if there was none.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class AdminApi:
    """Sends requests to one cluster under the gateway's own identity.

    :param config: address and token.
    :param tls: for `https:` addresses; the system's defaults if None.
    """

    def __init__(self, config: Admin, tls: ssl.SSLContext | None) -> None:
        self._url = config.url.rstrip("/")
        self._token = config.token or None
        self._tls = tls

    async def broker_hosts(self) -> set[str]:
        """Hosts of the brokers that are up, in all clusters that the API knows and that are reachable.

        :raises AdminApiError: if none is reachable.
        """
        hosts: set[str] = set()
        failed: AdminApiError | None = None
        for cluster in await self._get("/admin/v2/clusters"):
            try:
                brokers = await self._get("/admin/v2/brokers", cluster)
            except AdminApiError as error:  # a cluster that messages are replicated to may be unreachable
                failed = error
            else:
                hosts.update(address_of(broker)[0] for broker in brokers)
        if failed is not None and not hosts:
            raise failed
        return hosts

    async def subscriptions(self, topic: str) -> set[str]:
        """Names of a topic's subscriptions; none if the topic does not exist yet.

        :param topic: full name, `persistent://tenant/namespace/topic`.
        :raises AdminApiError: if the request fails.
        """
        try:
            return set(await self._get("/admin/v2", *_parts(topic), "subscriptions"))
        except AdminApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return set()
            raise

    async def configuration(self) -> dict[str, str]:
        """A broker's runtime configuration.

        :raises AdminApiError: if the request fails, such as without superuser rights.
        """
        found = await self._get("/admin/v2/brokers/configuration/runtime")
        return {str(name): str(value) for name, value in found.items()}

    async def topic_stats(self, topic: str) -> dict[str, Any]:
        """A topic's statistics, its backlog in bytes (`backlogSize`) among them.

        :raises AdminApiError: if the request fails; status 404 if there is no such topic.
        """
        return dict(await self._get("/admin/v2", *_parts(topic), "stats"))

    async def topic_backlog_quotas(self, topic: str) -> dict[str, Any]:
        """Backlog quotas that are set for a topic, by type; none where the brokers have no topic policies.

        :raises AdminApiError: if the request fails.
        """
        try:
            return dict(await self._get("/admin/v2", *_parts(topic), "backlogQuotaMap") or {})
        except AdminApiError as error:
            if error.status in (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_FOUND):
                return {}
            raise

    async def backlog_quotas(self, tenant: str, namespace: str) -> dict[str, Any]:
        """Backlog quotas that are set for a namespace, by type.

        :raises AdminApiError: if the request fails.
        """
        return dict(await self._get("/admin/v2/namespaces", tenant, namespace, "backlogQuotaMap") or {})

    async def _get(self, path: str, *names: str) -> Any:
        """The JSON at a path, to which names are added."""
        url = "/".join((f"{self._url}{path}", *(quote(name, safe="") for name in names)))
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                for _ in range(1 + _REDIRECTS):
                    response, content = await exchange(
                        url,
                        token=self._token,
                        tls=self._tls,
                        largest=_LARGEST_ANSWER,
                        accept="application/json",
                    )
                    if response.status not in (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.FOUND):
                        break
                    url = urljoin(url, response.headers.get("location", ""))
            if response.status != HTTPStatus.OK:
                answer = f"answers {response.status} {response.reason}"
                raise AdminApiError(f"{shown_url(url)} {answer}", response.status)
            return orjson.loads(content)
        except TimeoutError:
            raise AdminApiError(f"{shown_url(url)} does not answer within {_TIMEOUT_S:g} s") from None
        except (OSError, HTTPException, ValueError) as error:
            raise AdminApiError(f"{shown_url(url)}: {error}") from error


def _parts(topic: str) -> tuple[str, ...]:
    """A full name as it stands in paths: domain, tenant, namespace, local name."""
    domain, _, path = topic.partition("://")
    return (domain, *path.split("/", 2))
