"""Changing the store: every value is checked before the first one is written."""

from collections.abc import Mapping

from pydantic import ValidationError

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.config.fields import PolicyFields
from sluicegate.model import Level, PolicyValue
from sluicegate.store import PolicyStore, StoreError


def change_store(
    store: PolicyStore,
    fields: PolicyFields,
    level: Level,
    name: str,
    changes: Mapping[str, object],
    actor: str,
) -> None:
    """Set and unset fields of one namespace, one topic or the whole broker.

    :param store: what is changed.
    :param fields: the policy fields that are known.
    :param name: namespace or topic; empty at broker level.
    :param changes: values by field, in base units or as people write them; None takes a field away.
    :param actor: who does it, for the history.
    :raises PolicyRefusedError: if a field is unknown or a value does not fit; nothing is changed then.
    :raises PolicyUnavailableError: if the store cannot be written.
    """
    checked = {
        field: None if value is None else _checked(fields, field, value) for field, value in changes.items()
    }
    try:
        for field, value in checked.items():
            if value is None:
                store.unset(level, name, field, actor)
            else:
                store.set(level, name, field, value, actor)
    except StoreError as error:
        raise PolicyUnavailableError(str(error)) from error


def _checked(fields: PolicyFields, field: str, value: object) -> PolicyValue:
    try:
        return fields.parse(field, value)
    except KeyError:
        raise PolicyRefusedError(f"unknown policy {field!r}") from None
    except ValidationError as error:
        [detail, *_] = error.errors(include_url=False)
        context = detail.get("ctx") or {}
        text = "; ".join(str(context[part]) for part in ("problem", "remedy") if context.get(part))
        raise PolicyRefusedError(f"{field}: {text or detail['msg']}") from None
