"""Changes of a store beside a file, for tests."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import GatewayConfig
from sluicegate.model import Level, PolicyLayer, digest_of, policy_version
from sluicegate.runtime.changing import Wanted, change_store
from sluicegate.store import Author, Key, PolicyStore

_NO_BROKERS = GatewayConfig.model_construct(brokers=())


@dataclass(frozen=True)
class FileRules:
    """A `runtime.changing.Rules` without brokers."""

    fields: PolicyFields
    policy_layers: tuple[PolicyLayer, ...] = ()
    config: GatewayConfig = _NO_BROKERS

    locking: tuple[PolicyLayer, ...] = ()

    def version(self, store_layers: tuple[PolicyLayer, ...]) -> int:
        """The version of file and store."""
        return policy_version(digest_of(self.policy_layers), digest_of(store_layers))


def change_beside(
    store: PolicyStore,
    fields: PolicyFields,
    level: Level,
    name: str,
    changes: Mapping[str, object],
    actor: str = "ann",
    file: tuple[PolicyLayer, ...] = (),
) -> int:
    """Change a store beside the layers of a file."""
    wanted = [Wanted(Key(level, name, field), value) for field, value in changes.items()]
    return change_store(store, FileRules(fields, file), wanted, Author(actor))
