"""What people read about a difference: both values, where they come from, and what to do."""

from sluicegate.config.fields import PolicyFields
from sluicegate.features.drift.comparing import ACTIVE, FIXED_DELAY, MAX_DELAY, Difference, Kind, Side
from sluicegate.model import Level


def place(found: Difference) -> str:
    """The broker, or the name of a namespace or topic, with the principal if there is one."""
    if found.principal:
        return f"principal {found.principal}"
    return found.level.label if found.level is Level.BROKER else f"{found.level.label} {found.name}"


def gateway_text(found: Difference, fields: PolicyFields) -> str:
    """The gateway's value with its unit."""
    return _text(found.field, found.gateway, fields)


def broker_text(found: Difference, fields: PolicyFields) -> str:
    """The broker's value with its unit, whatever the broker itself writes."""
    return _text(_field_of_broker(found), found.broker, fields)


def remedy(found: Difference, fields: PolicyFields) -> str:
    """What to do about it; empty if nothing needs to be done."""
    if not found.own.is_enforced:
        return "the broker does not act on it: the gateway alone limits this"
    theirs = fields.text(_field_of_broker(found), found.own.value)
    if found.kind is Kind.EQUAL:
        return ""
    if found.field == ACTIVE:
        return f"set {ACTIVE}: {theirs} in the gateway, as it is on the broker, or change it there"
    if found.kind is Kind.STRICTER:
        return f"set {found.field} to {theirs} or less in the gateway, or raise the broker's limit"
    if found.kind is Kind.UNSET:
        return f"set {found.field}: {theirs} in the gateway, so that it counts and explains refusals"
    return "lower the broker's limit if clients can bypass the gateway"


def _field_of_broker(found: Difference) -> str:
    return MAX_DELAY if found.field == FIXED_DELAY else found.field


def _text(field: str, side: Side, fields: PolicyFields) -> str:
    return "unset" if side.value is None else fields.text(field, side.value)
