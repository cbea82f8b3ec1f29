"""Generates the JSON Schema of the file, for editors and for validation without Sluicegate."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from sluicegate.config.descriptions import descriptions
from sluicegate.config.fields import PolicyFields, models_in
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
    made = file_model(fields, broker_models)
    schema = made.model_json_schema()
    for model in _all_models(made):
        definition = schema if model is made else _definition(schema["$defs"], model)
        for name, text in descriptions(model).items():
            definition.get("properties", {}).get(name, {}).setdefault("description", text)
    # Only our models know the aliases; pydantic's generator does not include them.
    for definition in schema.get("$defs", {}).values():
        properties = definition.get("properties", {})
        for alias, name in fields.aliases.items():
            if name in properties and "title" in properties[name]:
                properties[alias] = {**properties[name], "description": f"Same as {name}."}
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "Sluicegate configuration"}


def _all_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and those of its fields, at any depth."""
    yield model
    for info in model.model_fields.values():
        for inner in models_in(info.annotation):
            yield from _all_models(inner)


def _definition(definitions: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model: under its name, or with its module where several have the same."""
    long_name = f"{model.__module__}.{model.__qualname__}".replace(".", "__")
    definition: dict[str, Any] = definitions.get(model.__name__) or definitions.get(long_name) or {}
    return definition
