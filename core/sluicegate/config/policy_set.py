"""Combines the policies of one broker into one snapshot."""

from sluicegate.config.load import Loaded
from sluicegate.config.models import BrokerConfig
from sluicegate.model import PolicyLayer, PolicySet


def policy_set(loaded: Loaded, store_layers: tuple[PolicyLayer, ...], version: int, broker: str) -> PolicySet:
    """Combine the policies of file and store into one snapshot.

    :param loaded: the file.
    :param store_layers: the store's policies; they override the file's unless those are locked.
    :param version: number of this snapshot; the caller increments it when file or store changes.
    :param broker: name of the broker.
    :raises KeyError: if the file has no such broker.
    """
    chosen = next((each for each in loaded.config.brokers if each.name == broker), None)
    if chosen is None:
        raise KeyError(broker)
    return entry_policies(chosen, loaded.policy_layers + store_layers, version)


def entry_policies(entry: BrokerConfig, layers: tuple[PolicyLayer, ...], version: int) -> PolicySet:
    """The policies of one broker, with the settings of its entry."""
    return PolicySet(
        version=version,
        layers=layers,
        observe_only=entry.observe_only,
        exempt_principals=frozenset(entry.exempt.principals),
        exempt_policies=frozenset(entry.exempt.policies),
    )
