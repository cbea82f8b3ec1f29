"""The file's JSON Schema, for editors and for checks without Sluicegate."""

from collections.abc import Iterable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from sluicegate.config.fields import PolicyFields
from sluicegate.config.load import file_model
from sluicegate.config.models import BrokerConfig, PolicyModel


def json_schema(
    policy_models: Iterable[type[PolicyModel]], broker_models: Iterable[type[BrokerConfig]]
) -> dict[str, Any]:
    """Describe the file (JSON Schema, draft 2020-12), plugins' fields and broker entries included.

    :param policy_models: policy fields of all plugins.
    :param broker_models: configuration models of all broker drivers.
    """
    fields = PolicyFields.of(policy_models)
    schema = file_model(fields, broker_models).model_json_schema()
    # The file's own model, not the schema generator, knows other names for a field.
    for definition in schema.get("$defs", {}).values():
        properties = definition.get("properties", {})
        for alias, name in fields.aliases.items():
            if name in properties and "title" in properties[name]:
                properties[alias] = {**properties[name], "description": f"Same as {name}."}
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "Sluicegate configuration"}
