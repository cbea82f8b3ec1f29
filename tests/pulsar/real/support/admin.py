"""Pulsar's admin REST API over plain HTTP, at a broker or at the gateway's web listener.

Topics are full names, `persistent://public/default/orders`, namespaces `public/default`; a target is either.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from tests.waiting import LONG_S, until

DEFAULT_NAMESPACE = "public/default"

# The same policy goes by two names.
_OF_NAMESPACES = {
    "maxProducers": "maxProducersPerTopic",
    "maxConsumers": "maxConsumersPerTopic",
}


class AdminError(Exception):
    """An answer that says no; `status` is its HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Admin:
    """One server of the admin API.

    :param url: its address, without a path.
    :param headers: sent with every request, such as `Authorization`.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        # A broker sends on who asks for a topic that another one serves.
        self._http = httpx.Client(base_url=url, headers=headers, timeout=LONG_S, follow_redirects=True)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(self, method: str, path: str, body: object = None, **query: str) -> httpx.Response:
        """One request as it is answered; `path` is what follows `/admin/v2`."""
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        return self._http.request(method, f"/admin/v2{path}", content=content, headers=headers, params=query)

    def get(self, path: str, **query: str) -> Any:
        """The JSON of an answer; None if it has no body.

        :raises AdminError: if it is not a success.
        """
        return _content(self.ask("GET", path, **query))

    def post(self, path: str, body: object = None, **query: str) -> Any:
        """As `get`."""
        return _content(self.ask("POST", path, body, **query))

    def put(self, path: str, body: object = None, **query: str) -> Any:
        """As `get`."""
        return _content(self.ask("PUT", path, body, **query))

    def delete(self, path: str, **query: str) -> Any:
        """As `get`."""
        return _content(self.ask("DELETE", path, **query))

    # -- topics and namespaces --------------------------------------------------------------------

    def create_namespace(self, namespace: str) -> None:
        """Make a namespace of a tenant that exists."""
        self.put(f"/namespaces/{namespace}")

    def create_topic(self, topic: str, partitions: int = 0) -> None:
        """Make a topic; 0 partitions for one that is not partitioned."""
        if partitions:
            self.put(f"{topic_path(topic)}/partitions", partitions)
        else:
            self.put(topic_path(topic))

    def stats(self, topic: str) -> dict[str, Any]:
        """Statistics of a topic: `publishers`, `subscriptions`, `msgInCounter` and many more."""
        found: dict[str, Any] = self.get(f"{topic_path(topic)}/stats")
        return found

    def subscriptions(self, topic: str) -> list[str]:
        """Names of a topic's subscriptions."""
        found: list[str] = self.get(f"{topic_path(topic)}/subscriptions")
        return found

    def create_subscription(self, topic: str, name: str) -> None:
        """Make a subscription that starts at the topic's first message."""
        self.put(f"{topic_path(topic)}/subscription/{name}", {"ledgerId": -1, "entryId": -1})

    def delete_subscription(self, topic: str, name: str) -> None:
        """Remove an unused subscription."""
        self.delete(f"{topic_path(topic)}/subscription/{name}")

    def entry_headers(self, topic: str, ledger: int, entry: int) -> httpx.Headers:
        """What the broker tells of a stored entry: `x-pulsar-deliver-at-time`, `x-pulsar-publish-time`, …"""
        response = self.ask("GET", f"{topic_path(topic)}/ledger/{ledger}/entry/{entry}")
        if response.is_error:
            raise AdminError(response.status_code, response.text)
        return response.headers

    def lookup(self, topic: str) -> dict[str, str]:
        """Which broker serves a topic: `brokerUrl`, `httpUrl`; a topic without an owner gets one."""
        found: dict[str, str] = self._looked_up(topic).json()
        return found

    def unload(self, topic: str, destination: str | None = None) -> None:
        """Have a topic's bundle served again; its clients reconnect.

        :param destination: `host:port` of the web service of the broker that is to serve it.
        """
        namespace = "/".join(topic_path(topic).split("/")[2:4])
        bundle = self._looked_up(topic, "/bundle").text
        query = {} if destination is None else {"destinationBroker": destination}
        self.put(f"/namespaces/{namespace}/{bundle}/unload", **query)

    def ask_lookup(self, topic: str, what: str = "") -> httpx.Response:
        """One lookup as it is answered."""
        return self._http.get(f"/lookup/v2/topic{topic_path(topic)}{what}")

    def _looked_up(self, topic: str, what: str = "") -> httpx.Response:
        response = self.ask_lookup(topic, what)
        if response.is_error:
            raise AdminError(response.status_code, response.text)
        return response

    # -- policies ---------------------------------------------------------------------------------

    def policy(self, target: str, name: str, *, applied: bool = False) -> Any:
        """A policy of a topic or namespace, None if unset.

        :param name: as topics have it: `maxProducers`, `publishRate`, `delayedDelivery`, …
        :param applied: what holds for a topic, wherever it was set.
        """
        return self.get(policy_path(target, name), **({"applied": "true"} if applied else {}))

    def set_policy(self, target: str, name: str, value: object) -> None:
        """Set a policy and wait until the broker tells it as its own.

        :raises TimeoutError: if it does not in time: policies of topics travel through a topic themselves.
        """
        self.post(policy_path(target, name), value)
        self._await(target, name, lambda found: found is not None and _holds(found, value))

    def remove_policy(self, target: str, name: str) -> None:
        """Unset a policy and wait as `set_policy` does."""
        self.delete(policy_path(target, name))
        self._await(target, name, lambda found: found is None)

    def _await(self, target: str, name: str, arrived: Any) -> None:
        found: Any = None

        def there() -> bool:
            nonlocal found
            found = self.policy(target, name)
            return bool(arrived(found))

        until(there, f"{name} of {target!r} has changed", tell=lambda: f"it is {found!r}")


def topic_path(topic: str) -> str:
    """Where a topic's pages start: `/persistent/public/default/orders`."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, name = rest.split("/", 2)
    return f"/{domain}/{tenant}/{namespace}/{quote(name, safe='')}"


def policy_path(target: str, name: str) -> str:
    """Where a policy of a topic or namespace is read and written."""
    if "://" in target:
        return f"{topic_path(target)}/{name}"
    return f"/namespaces/{target}/{_OF_NAMESPACES.get(name, name)}"


def _holds(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted was found; brokers add fields that were left out."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and _holds(found[key], value) for key, value in wanted.items()
        )
    return bool(found == wanted)


def _content(response: httpx.Response) -> Any:
    if response.is_error:
        raise AdminError(response.status_code, response.text)
    return response.json() if response.content else None
