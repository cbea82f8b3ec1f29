"""Generates the JSON Schema of the file, for editors and for validation without Sluicegate."""

from collections.abc import Iterable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from sluicegate.config.fields import PolicyFields
from sluicegate.config.load import file_model
from sluicegate.config.models import BrokerConfig, PolicyModel


def json_schema(
    policy_models: Iterable[type[PolicyModel]], broker_models: Iterable[type[BrokerConfig]]
) -> dict[str, Any]:
    """Describe the file in JSON Schema (draft 2020-12), including plugins' fields and broker entries.

    :param policy_models: policy fields of all plugins.
    :param broker_models: configuration models of all broker drivers.
    """
    fields = PolicyFields.of(policy_models)
    schema = file_model(fields, broker_models).model_json_schema()
    # Only our models know the aliases; pydantic's generator does not include them.
    for definition in schema.get("$defs", {}).values():
        properties = definition.get("properties", {})
        for alias, name in fields.aliases.items():
            if name in properties and "title" in properties[name]:
                properties[alias] = {**properties[name], "description": f"Same as {name}."}
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "Sluicegate configuration"}
