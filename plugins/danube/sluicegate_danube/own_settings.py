"""What a Danube cluster says of its own limits: the policies of its namespaces.

Danube copies the policies of its configuration to a namespace when that is made, and its admin API tells only
those. What single topics have is not told.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sluicegate.broker.broker_ports import shown
from sluicegate.model import Level
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSetting, OwnSettings, OwnSettingsError
from sluicegate_danube.brokers import address_of
from sluicegate_danube.channels import connect
from sluicegate_danube.config import DanubeConfig

if TYPE_CHECKING:
    import grpc.aio

_REMEDY = "check `admin` of the entry: its address, its token, and the rights of that identity"
_ENFORCED = (
    "max_producers_per_topic",
    "max_subscriptions_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_message_size",
)
"""Policies that have the same name and the same meaning here."""
_NOT_ENFORCED = {
    "max_publish_rate": "Danube only warns above it in its log (0.15); the gateway enforces it.",
    "max_subscription_dispatch_rate": "Danube ignores it on non-reliable topics, and loses messages on "
    "reliable ones (0.15); the gateway paces.",
}


async def own_settings(config: DanubeConfig, tls: BrokerTlsFiles) -> OwnSettings:
    """Ask a cluster.

    :raises OwnSettingsError: if its admin API does not answer, or there is none in the entry.
    """
    if config.admin is None:
        remedy = "add 'admin: {url: http://host:50051}' to the entry"
        raise OwnSettingsError("the entry has no address of the admin API", remedy)
    import grpc.aio

    from sluicegate_danube.admin.client import list_namespaces

    url, token = config.admin.url, config.admin.token
    try:
        async with connect(config, shown(address_of(url)), is_tls=url.startswith("https:")) as channel:
            namespaces = await list_namespaces(channel, token=token)
            return await _of_namespaces(channel, namespaces, token)
    except grpc.aio.AioRpcError as error:
        raise OwnSettingsError(f"{url}: {error.code().name}: {error.details()}", _REMEDY) from error
    except (OSError, ValueError) as error:
        raise OwnSettingsError(f"{url}: {error}", _REMEDY) from error


async def _of_namespaces(
    channel: "grpc.aio.Channel", namespaces: list[str], token: str | None
) -> OwnSettings:
    import grpc.aio

    from sluicegate_danube.admin.client import namespace_policies

    settings: list[OwnSetting] = []
    gaps = []
    for name in namespaces:
        try:
            policies = json.loads(await namespace_policies(channel, name, token=token))
            settings += namespace_settings(name, policies)
        except grpc.aio.AioRpcError as error:
            gaps.append(f"namespace {name}: {error.code().name}: {error.details()}")
        except (ValueError, AttributeError):
            gaps.append(f"namespace {name}: its policies cannot be read")
    return OwnSettings(tuple(settings), tuple(gaps))


def namespace_settings(name: str, policies: Mapping[str, Any]) -> Iterator[OwnSetting]:
    """The policies of a namespace.

    :param policies: as Danube writes them; 0 is unlimited.
    :raises ValueError: if one is no number.
    """
    for field in (*_ENFORCED, *_NOT_ENFORCED):
        if policies.get(field) is not None:
            note = _NOT_ENFORCED.get(field)
            yield OwnSetting(
                level=Level.NAMESPACE,
                name=name,
                field=field,
                value=int(policies[field]),
                origin=f"namespace policy {field}",
                text=str(policies[field]),
                notes=(note,) if note is not None else (),
                is_enforced=note is None,
            )
