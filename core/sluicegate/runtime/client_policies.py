"""Which policies of a broker apply in the processes of its clients."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sluicegate.model import PolicySet, Setting
from sluicegate.policies.creation import ALLOWED, CREATION

_BROKERS = ("adaptive_publish_throttling", "storage_")
"""What the fields begin with that follow the state of the broker."""
_WHY_BROKERS = "only a gateway follows the load and the volumes of its broker"
_SCHEMA = "allowed_content"
_NAMED_IN_MESSAGES = "kafka"
"""The kind of broker whose messages themselves name their schema."""
_WHY_SCHEMA = "the client's library does not say by which schema a message is written"
_CHAOS_ON_WIRE = ("chaos_kill", "chaos_corrupt")
"""Faults that `sluicegate.chaos` injects into connections."""
_WHY_CHAOS_ON_WIRE = "the client's library owns the connection and its responses"
_WHY_CREATION = "the clients that create topics are not wrapped"
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
            if not setting.value and field != ALLOWED:
                continue
            if field.startswith(_BROKERS):
                reasons[field] = _WHY_BROKERS
            elif field == _SCHEMA and system != _NAMED_IN_MESSAGES:
                reasons[field] = _WHY_SCHEMA
            elif field.startswith(_CHAOS_ON_WIRE):
                reasons[field] = _WHY_CHAOS_ON_WIRE
            elif capabilities.get(field) == "not applicable":
                reasons[field] = f"not applicable to {system}"
            elif field in CREATION:
                reasons[field] = _WHY_CREATION
    never = (*_BROKERS, *_CHAOS_ON_WIRE)
    left_out = never if system == _NAMED_IN_MESSAGES else (*never, _SCHEMA)
    layers = tuple(
        replace(layer, settings=_kept(layer.settings, left_out), ceilings=_kept(layer.ceilings, left_out))
        for layer in policies.layers
    )
    return ClientPolicies(replace(policies, layers=layers), dict(sorted(reasons.items())))


def _kept(settings: Mapping[str, Setting], left_out: tuple[str, ...]) -> Mapping[str, Setting]:
    return {
        field: setting
        for field, setting in settings.items()
        if not field.rpartition(".")[2].startswith(left_out)
    }
