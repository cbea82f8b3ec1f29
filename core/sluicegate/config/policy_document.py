"""A document of policies, for `sluicegate policies apply`: the policy keys of a configuration file."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import yaml
from pydantic import Field, ValidationError, create_model

from sluicegate.config.consistency import inconsistencies, policy_levels, remove_duplicate_aliases
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.fields import OPTIONS, PolicyFields
from sluicegate.config.layers import layers_of_levels
from sluicegate.config.models import PolicyModel, Strict
from sluicegate.config.scopes import FOR
from sluicegate.config.tree import parse
from sluicegate.config.validation import translate
from sluicegate.model import Level, PolicyLayer, PolicyValue

_LOCKED = "locked"
_SECTIONS = {Level.BROKER: "broker", Level.NAMESPACE: "namespaces", Level.TOPIC: "topics"}


def read_document(text: str, name: str, fields: PolicyFields) -> tuple[PolicyLayer, ...]:
    """Read a document of policies: `policies`, and `brokers` with `name` and `policies`.

    :param text: YAML.
    :param name: what errors call it.
    :param fields: the policy fields that are known.
    :raises ConfigErrors: with every error that was found.
    """
    findings: list[Finding] = []
    root = parse(text, name, findings)
    levels = tuple(policy_levels(root))
    findings.extend(remove_duplicate_aliases(levels, fields))
    made: Any = None
    if root.entries is None:
        remedy = "begin with 'policies:'"
        findings.append(root.location.error((), "expected a mapping (key: value)", remedy))
    else:
        try:
            made = _model(fields.models).model_validate(root.plain())
        except ValidationError as error:
            findings.extend(translate(error, root, _model(fields.models)))
    findings.extend(inconsistencies(root, levels, fields))
    for level in levels:
        for key, problem, do in ((_LOCKED, "lock policies", "lock them"), (FOR, "have scopes", "write it")):
            if (location := level.node.key(key)) is not None:
                message = f"the store cannot {problem}"
                findings.append(location.error((*level.path, key), message, f"{do} in the gateway's file"))
    if errors := [finding for finding in findings if finding.severity == "error"]:
        raise ConfigErrors(errors)
    return tuple(layers_of_levels(levels, made, fields))


def document_text(layers: Iterable[PolicyLayer], fields: PolicyFields) -> str:
    """Write layers as a document that `read_document` reads back, as YAML."""
    shared: dict[str, Any] = {}
    by_broker: dict[str, dict[str, Any]] = {}
    for layer in layers:
        policies = by_broker.setdefault(layer.broker, {}) if layer.broker else shared
        _add(policies, layer, fields)
    document: dict[str, Any] = {"policies": shared} if shared or not by_broker else {}
    if by_broker:
        document["brokers"] = [{"name": name, "policies": own} for name, own in sorted(by_broker.items())]
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1_000)
    return text


def _add(policies: dict[str, Any], layer: PolicyLayer, fields: PolicyFields) -> None:
    written: dict[str, Any] = {}
    for field, setting in layer.settings.items():
        option, _, policy = field.partition(".")
        if policy and option in OPTIONS:
            written.setdefault(option, {})[policy] = setting.value
        else:
            written[field] = _written(fields, field, setting.value)
    if layer.ceilings:
        written["ceiling"] = {
            field: _written(fields, field, setting.value) for field, setting in layer.ceilings.items()
        }
    if layer.level is Level.BROKER:
        policies["broker"] = written
    else:
        policies.setdefault(_SECTIONS[layer.level], []).append({"name": layer.name, **written})


def _written(fields: PolicyFields, field: str, value: PolicyValue) -> PolicyValue:
    """A value with its unit, as `fields.parse` takes it."""
    unit = fields.unit(field)
    is_quantity = (
        unit is not None and isinstance(value, int | float) and not isinstance(value, bool) and value
    )
    return fields.text(field, value) if is_quantity else value


@lru_cache(maxsize=4)
def _model(models: tuple[type[PolicyModel], ...]) -> type[Strict]:
    policies = PolicyFields.of(models).policies_model() | None
    make: Any = create_model  # its overloads do not accept types built at run time
    entry: Any = make(
        "BrokerPolicies",
        __base__=Strict,
        name=(str, Field(min_length=1, description="Name of the broker's entry.")),
        policies=(policies, Field(default=None, description="Policies for this broker alone.")),
    )
    made: type[Strict] = make(
        "PolicyDocument",
        __base__=Strict,
        __doc__="Policies to set in the store.",
        policies=(policies, Field(default=None, description="Policies for all brokers.")),
        brokers=(tuple[entry, ...], Field(default=(), description="Policies by broker.")),
    )
    return made
