"""Parses topic names exactly as the broker does; with any difference a client could bypass a policy."""

import re
from functools import lru_cache

from sluicegate.model import TopicName
from sluicegate_pulsar.codec.errors import ProtocolError

_DOMAINS = ("persistent", "non-persistent")
_PARTITION = re.compile(r"(.+)-partition-\d+")
_DEFAULT = "public/default"
_MAX_CHARACTERS = 1024


@lru_cache(maxsize=4096)
def topic_name(topic: str) -> TopicName:
    """Read a topic's name, in full or short form (`orders`, `public/default/orders`).

    Policies of a partitioned topic apply to each of its partitions, as Pulsar's own do. Policies of a
    name without a domain apply to the persistent and the non-persistent topic of that name.

    :raises ProtocolError: if it is no topic name.
    """
    if not 0 < len(topic) <= _MAX_CHARACTERS:
        raise ProtocolError(f"a topic name of {len(topic)} characters, expected 1 to {_MAX_CHARACTERS}")
    domain, separator, path = topic.partition("://")
    if not separator:
        domain, path = _DOMAINS[0], topic
        if "/" not in path:
            path = f"{_DEFAULT}/{path}"
    # V1 names have a cluster between tenant and namespace; the rest is the local name.
    parts = path.split("/", 3 if separator else 2)
    if domain not in _DOMAINS or len(parts) < 3 or not all(parts):
        raise ProtocolError(f"topic name {topic!r}, expected persistent://tenant/namespace/topic")
    namespace = "/".join(parts[:-1])
    full = f"{domain}://{path}"
    others = list(_short(namespace, path))
    partition = _PARTITION.fullmatch(path)
    if partition is not None:
        whole = partition[1]
        others += [f"{domain}://{whole}", *_short(namespace, whole)]
    return TopicName(full, namespace, tuple(others))


def could_be_topic(name: str) -> bool:
    """Whether a topic can have a name that a policy gives; `*` stands for any characters.

    :return: True also if it is uncertain.
    """
    if "*" not in name:
        try:
            topic_name(name)
        except ProtocolError:
            return False
        return True
    domain, separator, _ = name.partition("://")
    return not name.startswith("/") and (
        not separator or "*" in domain or "/" in domain or domain in _DOMAINS
    )


def could_be_namespace(name: str) -> bool:
    """The same for a namespace: `tenant/namespace`, in V1 also `tenant/cluster/namespace`."""
    if name.startswith("/") or name.endswith("/") or "//" in name or "://" in name:
        return False
    return name.count("/") <= 2 and ("/" in name or "*" in name)


def _short(namespace: str, path: str) -> list[str]:
    """The forms without a domain. For clients they mean the persistent topic, for policies both."""
    if "://" in path:
        return []  # a short name would be read as one with a domain
    short = [path]
    if namespace == _DEFAULT:
        short.append(path.removeprefix(f"{_DEFAULT}/"))
    return short
