"""What people read about a difference: both values, where they come from, and what to do."""

from sluicegate.config.fields import PolicyFields
from sluicegate.features.drift.comparing import ACTIVE, FIXED_DELAY, MAX_DELAY, Difference, Kind, Side
from sluicegate.model import Level


def target(difference: Difference) -> str:
    """The broker, or the name of a namespace or topic, with the principal if there is one."""
    if difference.principal:
        return f"principal {difference.principal}"
    level = difference.level
    return level.label if level is Level.BROKER else f"{level.label} {difference.name}"


def gateway_text(difference: Difference, fields: PolicyFields) -> str:
    """The gateway's value with its unit."""
    return _text(difference.field, difference.gateway, fields)


def broker_text(difference: Difference, fields: PolicyFields) -> str:
    """The broker's value with its unit, whatever the broker itself writes."""
    return _text(_field_of_broker(difference), difference.broker, fields)


def remedy(difference: Difference, fields: PolicyFields) -> str:
    """What to do about it; empty if nothing needs to be done."""
    if not difference.own.is_enforced:
        return "the broker does not act on it: the gateway alone limits this"
    theirs = fields.text(_field_of_broker(difference), difference.own.value)
    if difference.kind is Kind.EQUAL:
        return ""
    if difference.field == ACTIVE:
        return f"set {ACTIVE}: {theirs} in the gateway, as it is on the broker, or change it there"
    if difference.kind is Kind.STRICTER:
        return f"set {difference.field} to {theirs} or less in the gateway, or raise the broker's limit"
    if difference.kind is Kind.UNSET:
        return f"set {difference.field}: {theirs} in the gateway, so that it counts and explains refusals"
    return "lower the broker's limit if clients can bypass the gateway"


def _field_of_broker(difference: Difference) -> str:
    return MAX_DELAY if difference.field == FIXED_DELAY else difference.field


def _text(field: str, side: Side, fields: PolicyFields) -> str:
    return "unset" if side.value is None else fields.text(field, side.value)
