"""aiokafka's clients under the rule for dialling: they send the gateway's login to no other address."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, TypeAlias

from sluicegate.config.known_brokers import AddressPatterns
from sluicegate.config.units import Address
from sluicegate.net.dial_rule import DialRule
from sluicegate_kafka.config import KafkaConfig

log = logging.getLogger("sluicegate.kafka")

Refusal: TypeAlias = Callable[[str, int], Awaitable[str]]
"""`(host, port)` -> why the gateway's own clients do not connect there; empty if they do."""
REFUSAL = "refusal"
"""The option of `own_client` that aiokafka does not have, a `Refusal`."""
_MOST_TOLD = 100


def own_client(make: Callable[..., Any], options: Mapping[str, Any], **others: Any) -> Any:
    """A client that connects only to brokers that the entry allows.

    :param make: aiokafka's class, of a consumer, a producer or an admin client.
    :param options: as `login_options` makes them.
    :param others: further arguments of that class.
    """
    known = {**options, **others}
    refusal: Refusal | None = known.pop(REFUSAL, None)
    made = make(**known)
    if refusal is not None:
        client = made.client if hasattr(made, "client") else made._client  # noqa: SLF001
        _guard(client, refusal)
    return made


def refusal_of(config: KafkaConfig) -> Refusal:
    """The rule of an entry: clients' rule, with the brokers that its `identity` names as well.

    The gateway's own requests go to the addresses that brokers advertise, too.
    """
    identity = config.identity
    named = (*config.bootstrap, *(identity.bootstrap if identity is not None else ()))
    entry = config.model_copy(update={"bootstrap": named})
    patterns = AddressPatterns(entry.known_brokers)
    rule = DialRule(entry, lambda: _listening(config))

    async def refusal(host: str, port: int) -> str:
        if entry.writes_out(host, port):
            return ""
        if entry.known_brokers and not patterns.match(host, port):
            return "known_brokers does not name it"
        for place in named:  # the rule learns whether the entry's own brokers are on this machine
            for address in await _resolved(*place):
                rule.refusal((place.host, place.port), address)
        reasons = [rule.refusal((host, port), address) for address in await _resolved(host, port)]
        return next(filter(None, reasons), "")

    return refusal


def _guard(client: Any, refusal: Refusal) -> None:
    """Keep an `AIOKafkaClient` from nodes that are refused, as if these did not answer."""
    connect = client._get_conn  # noqa: SLF001 - all its connections to nodes are made here

    async def connect_if_allowed(node_id: Any, *, group: int = 0, **options: Any) -> Any:
        options["group"] = group
        made = client._conns.get((node_id, group))  # noqa: SLF001 - asked for with each request
        if made is not None and made.connected():
            return made
        node = client.cluster.broker_metadata(node_id)
        if node is not None and (reason := await refusal(node.host, node.port)):
            _tell(f"own requests do not go to node {node_id} at {Address(node.host, node.port)}: {reason}")
            return None
        return await connect(node_id, **options)

    client._get_conn = connect_if_allowed  # noqa: SLF001


@lru_cache(_MOST_TOLD)
def _tell(text: str) -> None:
    """Log a refusal once, as such requests are repeated for ever."""
    log.warning("%s", text)


async def _resolved(host: str, port: int) -> list[str]:
    """Addresses of a host; none if it has no name."""
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host, port)
    except (OSError, UnicodeError):
        return []  # nothing can connect to it either
    return list({str(each[4][0]): None for each in addresses})


def _listening(config: KafkaConfig) -> list[tuple[str, int]]:
    """The gateway's listener for bootstrapping, if the entry names it by an address."""
    with suppress(ValueError):
        return [(str(ip_address(config.listen.host)), config.listen.port)]
    return []
