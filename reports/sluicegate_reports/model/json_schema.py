"""The JSON Schema of results, for programs that read them."""

from typing import Any

from sluicegate_reports.model.results import VERSION, Results


def json_schema() -> dict[str, Any]:
    """The schema of what `--format json` writes (JSON Schema 2020-12), of this version."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Results).json_schema(mode="serialization")
    title = f"Results of sluicegate report, version {VERSION}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
