"""Which policies of a broker apply in the processes of its clients."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sluicegate.model import PolicyLayer, PolicySet, Setting

_BROKERS = ("adaptive_publish_throttling", "storage_")
"""What the fields begin with that follow the state of the broker."""
_WHY_BROKERS = "only a gateway follows the load and the volumes of its broker"
_WHY_UNKNOWN = "no plugin of this process declares it"


class ClientPolicies(NamedTuple):
    """The policies that apply in a client's process."""

    policies: PolicySet
    not_enforced: Mapping[str, str]
    """Why others that are set do not, by field."""


def for_client(
    policies: PolicySet, system: str, capabilities: Mapping[str, str], unknown: Iterable[str] = ()
) -> ClientPolicies:
    """Leave out the policies that a client's process cannot enforce.

    :param system: the kind of broker.
    :param capabilities: how it supports each policy; see `BaseDriver.capabilities`.
    :param unknown: further fields, which no plugin declares.
    """
    reasons = dict.fromkeys(unknown, _WHY_UNKNOWN)
    for layer in policies.layers:
        for field, setting in layer.settings.items():
            if not setting.value:
                continue
            if field.startswith(_BROKERS):
                reasons[field] = _WHY_BROKERS
            elif capabilities.get(field) == "not applicable":
                reasons[field] = f"not applicable to {system}"
    layers = tuple(map(_of_clients, policies.layers))
    return ClientPolicies(replace(policies, layers=layers), dict(sorted(reasons.items())))


def _of_clients(layer: PolicyLayer) -> PolicyLayer:
    return replace(layer, settings=_kept(layer.settings), ceilings=_kept(layer.ceilings))


def _kept(settings: Mapping[str, Setting]) -> Mapping[str, Setting]:
    return {
        field: setting
        for field, setting in settings.items()
        if not field.rpartition(".")[2].startswith(_BROKERS)
    }
