"""File and store together: one snapshot of all policies, replaced whole."""

from sluicegate.config.load import Loaded
from sluicegate.model import PolicyLayer, PolicySet


def policy_set(loaded: Loaded, store_layers: tuple[PolicyLayer, ...], version: int, broker: str) -> PolicySet:
    """Put what file and store say into one snapshot.

    :param loaded: the file.
    :param store_layers: what the store says; its settings override the file's unless those are locked.
    :param version: number of this snapshot; the caller counts it up whenever file or store changed.
    :param broker: name of the broker it is for.
    :raises KeyError: if the file names no such broker.
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
