"""Changing the store: every value is checked before all are written as one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig, Contradiction, GatewayConfig
from sluicegate.config.validation import suggest
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import (
    Level,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Setting,
    Source,
    TopicName,
    version_text,
)
from sluicegate.store import Author, Edit, Key, PolicyStore, StoreError
from sluicegate.store.policy_store import StoreConflictError, flattened, grouped

LONGEST_NAME = 4_096
"""Characters; the longest names of brokers are shorter."""
_ATTEMPTS = 5
"""How often a change is tried that others come before."""
NameOf = Callable[[BrokerConfig, str], TopicName]
"""The name of a topic, as a broker's driver reads it."""


class Rules(Protocol):
    """A configuration file, as far as the store's values must agree with it."""

    @property
    def config(self) -> GatewayConfig:
        """The sections of the file."""

    @property
    def fields(self) -> PolicyFields:
        """The policy fields that are known."""

    @property
    def policy_layers(self) -> tuple[PolicyLayer, ...]:
        """The policies of the file."""

    @property
    def locking(self) -> Sequence[PolicyLayer]:
        """The policies that lock something."""

    def version(self, store_layers: tuple[PolicyLayer, ...], /) -> int:
        """The version of its policies with those of the store."""


class Wanted(NamedTuple):
    """A change of one field, not checked yet."""

    key: Key
    """Its field may be an alias."""
    value: object
    """In base units or with units; None removes the field."""


def wanted_for(broker: str, level: Level, name: str, changes: Mapping[str, object]) -> list[Wanted]:
    """Changes of one namespace or topic for one broker alone.

    What is removed is removed, too, where it is set for all brokers, as it would go on to hold otherwise.

    :param changes: values by field; None removes a field.
    """
    wanted = [Wanted(Key(level, name, field, broker), value) for field, value in changes.items()]
    return wanted + [
        Wanted(Key(level, name, field), None) for field, value in changes.items() if value is None
    ]


def change_store(
    store: PolicyStore,
    rules: Rules,
    wanted: Iterable[Wanted],
    author: Author,
    expected: int | None = None,
    name_of: NameOf | None = None,
) -> int:
    """Set and unset fields as one change.

    :param store: what is changed.
    :param rules: the file, which the store's values must not contradict.
    :param expected: the store's version that the author has seen; None for any.
    :param name_of: by which locks of the file are found; None to let locked fields be stored, without effect.
    :return: the store's version after it.
    :raises PolicyRefusedError: if a field is unknown or a value does not fit; nothing is changed then.
    :raises PolicyUnavailableError: if the store cannot be written.
    :raises StoreConflictError: if the store has another version than expected.
    """
    wanted = tuple(wanted)
    for attempt in range(_ATTEMPTS):
        try:
            version, layers = store.layers()
            edits, after = planned(rules, layers, wanted, name_of)
            policies = version_text(rules.version(after))
            return store.change(edits, author, version if expected is None else expected, policies)
        except StoreConflictError:
            if expected is not None or attempt == _ATTEMPTS - 1:
                raise
        except StoreError as error:
            raise PolicyUnavailableError(str(error)) from error
    raise AssertionError("the last attempt returns or raises")


def planned(
    rules: Rules,
    layers: tuple[PolicyLayer, ...],
    wanted: Iterable[Wanted],
    name_of: NameOf | None = None,
) -> tuple[list[Edit], tuple[PolicyLayer, ...]]:
    """Check a change.

    :param layers: of the store, before it.
    :return: the change, and the store's layers after it.
    :raises PolicyRefusedError: for the first part that does not fit.
    """
    edits = _checked_edits(rules, wanted)
    if name_of is not None:
        _refuse_locked(rules, edits, name_of)
    after = layers_after(layers, edits)
    _refuse_contradictions(rules, layers, after)
    return edits, after


def _checked_edits(rules: Rules, wanted: Iterable[Wanted]) -> list[Edit]:
    fields = rules.fields
    edits: dict[Key, Edit] = {}
    for key, value in wanted:
        canonical = key._replace(field=_canonical(fields, key.field))
        if canonical in edits:
            raise PolicyRefusedError(f"{canonical.field} is named twice, once perhaps by an alias")
        _refuse_name(rules.config.brokers, canonical)
        edits[canonical] = Edit(canonical, _checked(fields, key.level, key.field, value))
    return list(edits.values())


def layers_after(layers: Sequence[PolicyLayer], edits: Iterable[Edit]) -> tuple[PolicyLayer, ...]:
    """The store's layers with some edits applied."""
    settings = dict(flattened(layers))
    for key, value in edits:
        if value is None:
            settings.pop(key, None)
        else:
            settings[key] = Setting(value, Source.STORE, "this change")
    return grouped(settings.items())


def _canonical(fields: PolicyFields, name: str) -> str:
    option, dot, policy = name.rpartition(".")
    return f"{option}{dot}{fields.aliases.get(policy, policy)}"


def _refuse_name(brokers: Sequence[BrokerConfig], key: Key) -> None:
    """Refuse a name that no broker can have."""
    known = [broker.name for broker in brokers]
    if key.broker and key.broker not in known:
        raise PolicyRefusedError(f"unknown broker {key.broker!r}: the file has {', '.join(known)}")
    if key.level is Level.BROKER:
        if key.name:
            raise PolicyRefusedError(f"policies of a whole broker have no name, not {key.name!r}")
        return
    if not key.name or len(key.name) > LONGEST_NAME or not key.name.isprintable():
        problem = f"{key.name[:80]!r} is no name of a {key.level.label}"
        raise PolicyRefusedError(f"{problem}: write 1 to {LONGEST_NAME} printable characters")
    asked = [broker for broker in brokers if key.broker in ("", broker.name)]
    rules = dict.fromkeys((broker.system, broker.rule_of_names(key.level, key.name)) for broker in asked)
    if rules and all(rule for _, rule in rules):
        said = "; ".join(f"on {system} {rule}" for system, rule in rules)
        raise PolicyRefusedError(f"no broker of the file can have a {key.level.label} {key.name!r}: {said}")


def _refuse_locked(rules: Rules, edits: Iterable[Edit], name_of: NameOf) -> None:
    """Refuse to set what the file locks, at this level or above, to another value."""
    for broker in rules.config.brokers if rules.locking else ():
        layers = tuple(layer for layer in rules.locking if layer.broker in ("", broker.name))
        resolver = Resolver(PolicySet(0, layers), {})
        for (level, name, field, own, _), value in edits:
            if value is None or own not in ("", broker.name) or "*" in name:
                continue
            topic = name_of(broker, name) if level is Level.TOPIC else TopicName("", name)
            lock = resolver.lock(topic, level, field)
            if lock is not None and lock.value != value:
                problem = f"{field} is locked by the file in {lock.location}"
                raise PolicyRefusedError(f"{problem}: change it there, or remove the lock")


def _refuse_contradictions(
    rules: Rules, before: tuple[PolicyLayer, ...], after: tuple[PolicyLayer, ...]
) -> None:
    """Refuse changes that make a broker's fields contradict each other, unless they do already."""
    brokers: Sequence[BrokerConfig | None] = rules.config.brokers or (None,)
    for broker in brokers:
        name = "" if broker is None else broker.name
        known = _contradictions(rules, before, name)
        for conflict in _contradictions(rules, after, name):
            if conflict not in known:
                raise PolicyRefusedError(f"{conflict.field}: {conflict.problem}; {conflict.remedy}")


def _contradictions(rules: Rules, layers: tuple[PolicyLayer, ...], broker: str) -> list[Contradiction]:
    applying = tuple(
        layer
        for layer in (*rules.policy_layers, *layers)
        if layer.level is Level.BROKER and layer.broker in ("", broker)
    )
    values = Resolver(PolicySet(0, applying), {}).resolve(TopicName("", ""), Level.BROKER).values
    return list(rules.fields.contradictions(values))


def _checked(fields: PolicyFields, level: Level, field: str, value: object) -> PolicyValue | None:
    if value is None:  # also a field whose plugin is not loaded any more
        return None
    if level is not Level.BROKER and fields.is_for_broker(field):
        raise PolicyRefusedError(
            f"{field}: applies to a whole broker, not to one {level.label}; set it for the broker"
        )
    try:
        return fields.parse(_canonical(fields, field), value)
    except KeyError:
        hint = suggest(field, fields.settings)
        raise PolicyRefusedError(f"unknown policy {field!r}" + (f": {hint}" if hint else "")) from None
    except ValidationError as error:
        [detail, *_] = error.errors(include_url=False)
        context = detail.get("ctx") or {}
        text = "; ".join(str(context[part]) for part in ("problem", "remedy") if context.get(part))
        raise PolicyRefusedError(f"{field}: {text or detail['msg']}") from None
