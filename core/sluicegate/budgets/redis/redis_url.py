"""Clients of the servers that a URL names: one server, what Sentinels name as primary, or a cluster."""

from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from sluicegate.budgets.budget_store import BudgetStoreError

_SENTINEL_PORT, _PORT = 26379, 6379
_REMEDY: Final = (
    "write redis://HOST:6379/0, rediss:// for TLS, unix:///PATH, "
    "redis+sentinel://HOST:26379,HOST:26379/SERVICE, or redis+cluster://HOST:6379,HOST:6379"
)
SCHEMES: Final = frozenset(
    {"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}
)


def redis_client(url: str) -> Redis | RedisCluster:
    """A client that tries nothing again; it connects at its first call.

    :param url: `redis://[user:password@]host[:port][/database]`, `rediss://` with TLS, `unix:///path`,
        `redis+sentinel://[user:password@]host[:port],…/service` or `redis+cluster://host[:port],…`.
    :raises BudgetStoreError: if it is none of them; the text never shows the login.
    """
    scheme, _, kind = url.partition("://")[0].partition("+")
    try:
        if not kind:
            return _with_known_options(Redis.from_url(url, retry=_never(), socket_timeout=None))
        hosts, path, login = _parts(url, _SENTINEL_PORT if kind == "sentinel" else _PORT)
        if kind == "cluster":
            nodes = [ClusterNode(host, port) for host, port in hosts]
            return RedisCluster(startup_nodes=nodes, retry=_never(), ssl=scheme == "rediss", **login)
        if not path:
            raise ValueError("the name of the service is missing")
        options = {"retry": _never(), "ssl": scheme == "rediss", **login}
        sentinel: Any = Sentinel(hosts, sentinel_kwargs={"retry": _never()}, **options)  # type: ignore[no-untyped-call]
        return cast("Redis", sentinel.master_for(path))
    except ValueError as error:
        raise BudgetStoreError(f"{error}: {_REMEDY}") from None


def _with_known_options(client: Redis) -> Redis:
    pool = client.connection_pool
    try:
        pool.connection_class(**pool.connection_kwargs)  # as the client does when it connects
    except TypeError as error:
        raise ValueError(f"an option of the URL is unknown ({error})") from None
    return client


def _never() -> Retry:
    return Retry(NoBackoff(), 0)


def _parts(url: str, port: int) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """Hosts with ports, the path and the login of a URL with several hosts."""
    split = urlsplit(url)
    user_and_password, _, hosts = split.netloc.rpartition("@")
    user, _, password = user_and_password.partition(":")
    login = {"username": unquote(user), "password": unquote(password)}
    members = []
    for member in hosts.split(","):
        host, colon, own_port = member.rpartition(":")
        members.append((host, int(own_port)) if colon else (member, port))
    return members, split.path.strip("/"), {name: value for name, value in login.items() if value}
