"""Changing the store: every value is checked before all are written as one."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import Contradiction
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source, TopicName
from sluicegate.store import PolicyStore, StoreError


def change_store(
    store: PolicyStore,
    fields: PolicyFields,
    level: Level,
    name: str,
    changes: Mapping[str, object],
    actor: str,
    file: Sequence[PolicyLayer] = (),
) -> None:
    """Set and unset fields of one namespace, one topic or the whole broker.

    :param store: what is changed.
    :param fields: the policy fields that are known.
    :param name: namespace or topic; empty at broker level.
    :param changes: values by field or alias, in base units or with units; None removes a field.
    :param actor: the author, for the history.
    :param file: what the file says, which the store's values must not contradict.
    :raises PolicyRefusedError: if a field is unknown or a value does not fit; nothing is changed then.
    :raises PolicyUnavailableError: if the store cannot be written.
    """
    checked: dict[str, PolicyValue | None] = {}
    for field, value in changes.items():
        canonical = fields.aliases.get(field, field)
        if canonical in checked:
            raise PolicyRefusedError(f"{canonical} is named twice, once by an alias")
        checked[canonical] = None if value is None else _checked(fields, level, field, value)
    try:
        if level is Level.BROKER:
            _refuse_contradictions(fields, (*file, *store.layers()[1]), checked)
        store.change(level, name, checked, actor)
    except StoreError as error:
        raise PolicyUnavailableError(str(error)) from error


def _refuse_contradictions(
    fields: PolicyFields, layers: Sequence[PolicyLayer], changes: Mapping[str, PolicyValue | None]
) -> None:
    """Refuse changes that make the broker's fields contradict each other, unless they do already."""
    after = [_without(layer, changes) for layer in layers]
    changed = {name: Setting(value, Source.STORE) for name, value in changes.items() if value is not None}
    before = _contradictions(fields, layers)
    for found in _contradictions(fields, [*after, PolicyLayer(Level.BROKER, "", changed)]):
        if found not in before:
            raise PolicyRefusedError(f"{found.field}: {found.problem}; {found.remedy}")


def _without(layer: PolicyLayer, names: Mapping[str, object]) -> PolicyLayer:
    """A layer of the broker's level without the store's values of some fields."""
    if layer.level is not Level.BROKER:
        return layer
    kept = {
        name: setting
        for name, setting in layer.settings.items()
        if name not in names or setting.source is not Source.STORE
    }
    return PolicyLayer(layer.level, layer.name, kept, layer.ceilings)


def _contradictions(fields: PolicyFields, layers: Sequence[PolicyLayer]) -> list[Contradiction]:
    broker = Resolver(PolicySet(0, tuple(layers)), {}).resolve(TopicName("", ""), Level.BROKER)
    return list(fields.contradictions(broker.values))


def _checked(fields: PolicyFields, level: Level, field: str, value: object) -> PolicyValue:
    if level is not Level.BROKER and fields.is_for_broker(field):
        raise PolicyRefusedError(
            f"{field}: applies to a whole broker, not to one {level.label}; set it for the broker"
        )
    try:
        return fields.parse(field, value)
    except KeyError:
        raise PolicyRefusedError(f"unknown policy {field!r}") from None
    except ValidationError as error:
        [detail, *_] = error.errors(include_url=False)
        context = detail.get("ctx") or {}
        text = "; ".join(str(context[part]) for part in ("problem", "remedy") if context.get(part))
        raise PolicyRefusedError(f"{field}: {text or detail['msg']}") from None
