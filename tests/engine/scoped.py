"""A topic with scopes, compiled as the gateway compiles it, under a clock that only moves when told to."""

from collections.abc import Mapping
from dataclasses import replace

from tests.engine.lab import KeepingSink

from sluicegate.engine.faults import GateFaults
from sluicegate.model import (
    EVERYBODY,
    Level,
    Operation,
    OperationKind,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Scope,
    Setting,
    Source,
    path_name,
)
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import plugins_of

TOPIC = "orders.eu"
SECOND_NS = 1_000_000_000


def layer(
    values: Mapping[str, PolicyValue],
    scope: Scope = EVERYBODY,
    level: Level = Level.TOPIC,
    name: str = TOPIC,
    ceilings: Mapping[str, PolicyValue] | None = None,
) -> PolicyLayer:
    """What the file sets for a scope."""
    settings, bounds = (
        {field: Setting(value, Source.FILE, f"{level.label} {scope}") for field, value in each.items()}
        for each in (values, ceilings or {})
    )
    return PolicyLayer(level, "" if level is Level.BROKER else name, settings, bounds, scope=scope)


def compiler(*layers: PolicyLayer, plugins: tuple[object, ...] = ()) -> GateCompiler:
    """What compiles the gates of a broker with these policies."""
    loaded = plugins_of(plugins, builtin=True)
    return GateCompiler(loaded, path_name, PolicySet(1, layers), KeepingSink(), GateFaults(), slow_ms=0)


def operation(
    kind: OperationKind, principal: str = "bob", client: str = "app", group: str = "", key: str = ""
) -> Operation:
    """An operation of one client."""
    op = Operation(kind, TOPIC, principal, f"{client}@127.0.0.1:1", subscription=group)
    if kind in (OperationKind.PUBLISH, OperationKind.ATTACH_PRODUCER):
        return replace(op, producer=key or principal, messages=1, bytes=100, largest=100)
    return replace(op, consumer=key or principal, messages=1, bytes=100)


def publish(principal: str = "bob", client: str = "app", nbytes: int = 100) -> Operation:
    """A message of one client."""
    return replace(operation(OperationKind.PUBLISH, principal, client), bytes=nbytes, largest=nbytes)
