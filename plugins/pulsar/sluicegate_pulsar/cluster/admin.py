"""The gateway's own requests to a cluster's admin API: brokers, subscriptions, delays, backlogs.

Requests are few and small, and an HTTP client library would take more memory than the gateway itself, so
each request opens its own connection. Without a response, the policies that need it follow their
`on_unknown`.
"""

import asyncio
import logging
import ssl
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from sluicegate.broker.broker_ports import Address
from sluicegate.host.http_get import exchange, shown_url
from sluicegate_pulsar.cluster.brokers import Brokers, address_of
from sluicegate_pulsar.cluster.redirects import STATUSES, RedirectRefusedError, redirected
from sluicegate_pulsar.config import Admin

log = logging.getLogger("sluicegate.pulsar")

_TIMEOUT_S = 5.0
_LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes; a topic with half a million subscriptions answers with fewer."""
_REDIRECTS = 3
"""A broker sends questions on topics that it does not serve to the broker that does."""
_LISTED_S = 1.0
"""After so long a redirect to a broker that is not listed has the brokers listed again, as it may be new."""
_MOST_WARNINGS = 100
_PARTITION = "-partition-"
"""What stands between the name of a partitioned topic and the number of a partition."""


class AdminApiError(Exception):
    """A request failed; the message says why.

    :param status: the response's status; 0 if there was none.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class AdminApi:
    """Sends requests to one cluster under the gateway's own identity, and to no other.

    :param config: address and token.
    :param tls: for `https:` addresses; the system's defaults if None.
    :param brokers: those that are known; the ones that the API lists are added.
    :param warned: redirects that have been warned of; for APIs that are made again and again.
    """

    def __init__(
        self,
        config: Admin,
        tls: ssl.SSLContext | None,
        brokers: Brokers,
        warned: set[str] | None = None,
    ) -> None:
        self._url = config.url.rstrip("/")
        self._token = config.token or None
        self._tls = tls
        self._brokers = brokers
        self._host = urlsplit(config.url).hostname
        self._listing = asyncio.Lock()
        self._listed_s = -_LISTED_S
        """When the brokers were last asked for, by the clock of the event loop."""
        self._warned = set() if warned is None else warned

    async def list_brokers(self) -> None:
        """Learn the hosts of the cluster's brokers that are up.

        :raises AdminApiError: if the request fails, such as without superuser rights.
        :raises TypeError, ValueError: if the response is no list of addresses.
        """
        try:
            # Without a name (since Pulsar 2.11) the own brokers are listed. For the name of another cluster,
            # a broker redirects to that one.
            listed = await self._get("/admin/v2/brokers", is_list=True)
        finally:
            self._listed_s = asyncio.get_running_loop().time()
        self._brokers.listed(address_of(str(broker))[0] for broker in listed)

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
        values = await self._get("/admin/v2/brokers/configuration/runtime")
        return {str(name): str(value) for name, value in values.items()}

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

    async def namespaces(self) -> list[tuple[str, str]]:
        """Tenant and name of every namespace that the gateway may see, sorted.

        :raises AdminApiError: if a request fails, such as without superuser rights.
        """
        listed: list[tuple[str, str]] = []
        for tenant in sorted(map(str, await self._get("/admin/v2/tenants"))):
            namespaces = sorted(map(str, await self._get("/admin/v2/namespaces", tenant)))
            listed.extend((tenant, namespace.partition("/")[2]) for namespace in namespaces)
        return listed

    async def namespace_policies(self, tenant: str, namespace: str) -> dict[str, Any]:
        """All policies that are set for a namespace.

        :raises AdminApiError: if the request fails.
        """
        return dict(await self._get("/admin/v2/namespaces", tenant, namespace))

    async def topics(self, tenant: str, namespace: str) -> list[str]:
        """Full names of a namespace's persistent topics, sorted; partitioned ones without their partitions.

        :raises AdminApiError: if a request fails.
        """
        path = ("/admin/v2/persistent", tenant, namespace)
        partitioned = set(map(str, await self._get(*path, "partitioned")))
        single = (str(name) for name in await self._get(*path))
        return sorted(
            partitioned.union(name for name in single if name.rpartition(_PARTITION)[0] not in partitioned)
        )

    async def topic_policy(self, topic: str, name: str, *, is_global: bool = False) -> Any:
        """One policy that is set for a topic itself; None if it is not set, or the brokers do not know it.

        :param name: as in paths: `maxProducers`.
        :param is_global: whether it is the one that all clusters of the topic share, not the local one.
        :raises AdminApiError: if the request fails.
        """
        query = "?isGlobal=true" if is_global else ""
        try:
            return await self._get("/admin/v2", *_parts(topic), name, query=query, may_be_empty=True)
        except AdminApiError as error:
            if error.status in (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_FOUND):
                return None
            raise

    async def _get(
        self, path: str, *names: str, query: str = "", is_list: bool = False, may_be_empty: bool = False
    ) -> Any:
        """The JSON at a path, to which names are added.

        :param query: follows them as it is.
        :param is_list: whether it is the list of the brokers itself.
        :param may_be_empty: whether an answer without content is None; else it is an error.
        """
        url = "/".join((f"{self._url}{path}", *(quote(name, safe="") for name in names))) + query
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                for _ in range(1 + _REDIRECTS):
                    response, content = await exchange(
                        url,
                        token=self._token,
                        tls=self._tls,
                        largest=_LARGEST_ANSWER,
                        headers={"Accept": "application/json"},
                    )
                    if response.status not in STATUSES:
                        break
                    url = await self._follow(url, response, is_list)
            if may_be_empty and response.status < HTTPStatus.MULTIPLE_CHOICES and not content:
                return None
            if response.status != HTTPStatus.OK:
                problem = f"answers {response.status} {response.reason}"
                raise AdminApiError(f"{shown_url(url)} {problem}", response.status)
            return orjson.loads(content)
        except TimeoutError:
            raise AdminApiError(f"{shown_url(url)} does not answer within {_TIMEOUT_S:g} s") from None
        except (OSError, HTTPException, ValueError) as error:
            raise AdminApiError(f"{shown_url(url)}: {error}") from error

    async def _follow(self, url: str, response: HTTPResponse, is_list: bool) -> str:
        """Where a redirect leads.

        :raises AdminApiError: if the token must not go there.
        """
        location = response.headers.get("location", "")
        with suppress(RedirectRefusedError):
            return redirected(url, location, self._is_own)
        if not is_list:
            await self._list_again()
        try:
            return redirected(url, location, self._is_own)
        except RedirectRefusedError as error:
            if error.origin not in self._warned and len(self._warned) < _MOST_WARNINGS:
                self._warned.add(error.origin)
                log.warning("a redirect of the admin API is not followed: %s", error)
            text = f"{shown_url(url)} redirects to {error.origin}, which is not followed"
            raise AdminApiError(text, response.status) from None

    async def _list_again(self) -> None:
        async with self._listing:
            if asyncio.get_running_loop().time() - self._listed_s >= _LISTED_S:
                with suppress(AdminApiError, TypeError, ValueError):
                    await self.list_brokers()

    def _is_own(self, address: Address) -> bool:
        return address[0] == self._host or self._brokers.is_known_host(address)


def _parts(topic: str) -> tuple[str, ...]:
    """A full name as it stands in paths: domain, tenant, namespace, local name."""
    domain, _, path = topic.partition("://")
    return (domain, *path.split("/", 2))
