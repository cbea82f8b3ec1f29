"""Combines file and store into one snapshot of all policies."""

from sluicegate.config.load import Loaded
from sluicegate.model import PolicyLayer, PolicySet


def policy_set(loaded: Loaded, store_layers: tuple[PolicyLayer, ...], version: int, broker: str) -> PolicySet:
    """Combine the policies of file and store into one snapshot.

    :param store_layers: the store's policies; they override the file's unless those are locked.
    :param version: number of this snapshot; the caller increments it when file or store changes.
    :raises KeyError: if the file has no such broker.
    """
    chosen = next((each for each in loaded.config.brokers if each.name == broker), None)
    if chosen is None:
        raise KeyError(broker)
    return PolicySet(
        version=version,
        layers=loaded.policy_layers + store_layers,
        observe_only=chosen.observe_only,
        exempt_principals=frozenset(chosen.exempt.principals),
        exempt_policies=frozenset(chosen.exempt.policies),
    )
