"""The description of the admin API (OpenAPI 3.1), from a table of its paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from sluicegate import __version__
from sluicegate.admin.bodies import JSON_TYPE, YAML_TYPE, UndoBody
from sluicegate.runtime.edits import ChangeBody, PromoteBody

_PROBLEM = "application/problem+json"
_WHOLE = {"type": "integer", "minimum": 1, "maximum": 1_000}
_NUMBER = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1}
_FLAG = {"type": "boolean"}
_TEXT = {"type": "string"}
_ALWAYS = {400: "The request cannot be used.", 401: "No such token.", 403: "The caller may not do it."}
_CHANGES = {
    412: "Other policies are in force than If-Match says.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "A name or a value does not fit.",
    503: "The store cannot be used now.",
}


@dataclass(frozen=True, slots=True)
class Described:
    """One method of one path."""

    method: str
    path: str
    summary: str
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    """Parameters of the query that must be given."""
    body: type[BaseModel] | str | None = None
    """A model, or the type of a text."""
    answer: Sequence[str] | str = ()
    """Keys of the answer, or the type of a text."""
    problems: Mapping[int, str] = field(default_factory=dict)
    """Further problems, by status."""
    status: str = "200"


_PAGES = {"limit": _WHOLE, "offset": {"type": "integer", "minimum": 0, "maximum": 2**31}}
_FILTERS = dict.fromkeys(("broker", "level", "name", "field", "source"), _TEXT)
_DONE = ("version", "changes")
_DRY = {"dry_run": _FLAG}
_GONE = {404: "There is no such revision.", **_CHANGES}
_POLICIES = (
    Described("get", "/v1/openapi.json", "This description.", answer=("openapi", "paths")),
    Described(
        "get",
        "/v1/policies",
        "What file and store set, in pages.",
        {**_FILTERS, **_PAGES},
        answer=("version", "settings", "total"),
        problems={304: "The policies still have the version of If-None-Match.", 503: _CHANGES[503]},
    ),
    Described(
        "patch", "/v1/policies", "Set and unset policies.", _DRY, frozenset(), ChangeBody, _DONE, _CHANGES
    ),
    Described(
        "get",
        "/v1/policies/effective",
        "The policies in force for a topic.",
        {
            "topic": {"type": "string", "minLength": 1, "maxLength": 4_096},
            **dict.fromkeys(("broker", "principal", "client", "group"), _TEXT),
        },
        frozenset({"topic"}),
        answer=("broker", "topic", "version", "policies"),
        problems={404: "There is no such broker.", 503: "No policies are in force yet."},
    ),
    Described(
        "get",
        "/v1/policies/in-force",
        "All policies of a broker, for processes that apply them themselves.",
        {"broker": _TEXT, "wait": {"type": "integer", "minimum": 0, "maximum": 60}},
        answer=("broker", "version", "settings"),
        problems={
            304: "The policies are still those of If-None-Match, also after a wait.",
            404: "There is no such broker.",
            503: "No policies are in force yet.",
        },
    ),
    Described(
        "get",
        "/v1/policies/document",
        "The store's policies as a document.",
        answer=YAML_TYPE,
        problems={503: _CHANGES[503]},
    ),
    Described(
        "post",
        "/v1/policies/document",
        "Make the store agree with a document.",
        {**_DRY, "prune": _FLAG, "reason": {"type": "string", "maxLength": 1_000}},
        frozenset(),
        YAML_TYPE,
        _DONE,
        _CHANGES,
    ),
    Described(
        "get",
        "/v1/policies/history",
        "The last revisions, newest first.",
        {"limit": _WHOLE, "before": _NUMBER},
        answer=("revisions",),
        problems={503: _CHANGES[503]},
    ),
    Described(
        "get",
        "/v1/policies/rollouts",
        "The policies that do not apply to everybody yet.",
        answer=("rollouts",),
        problems={503: _CHANGES[503]},
    ),
    Described(
        "post",
        "/v1/policies/promote",
        "Have a policy apply to more.",
        _DRY,
        frozenset(),
        PromoteBody,
        _DONE,
        {409: "What is known of the policy does not allow it.", **_CHANGES},
    ),
    Described(
        "post",
        "/v1/policies/history/{number}/undo",
        "Take back a revision.",
        _DRY,
        frozenset(),
        UndoBody,
        _DONE,
        _GONE,
    ),
)

_LISTED: Mapping[str, Mapping[str, Any]] = {"broker": _TEXT, **_PAGES}
_DECISIONS = dict.fromkeys(("broker", "topic", "principal", "action"), _TEXT)
_LISTS = tuple(
    Described("get", f"/v1/{name}", text, _LISTED, answer=(key, "total"))
    for name, key, text in (
        ("brokers", "brokers", "Each broker and its worker."),
        ("topics", "topics", "The busiest topics, with totals, counts and the use of their limits."),
        ("principals", "principals", "The busiest principals."),
        ("clients", "clients", "The busiest client ids."),
        ("held", "held", "Requests that are held now, the oldest first."),
        ("plugins", "plugins", "Exceptions of plugins, and how long their calls take."),
        ("factors", "brokers", "Factors, and the state of adaptive controllers."),
        ("pressures", "brokers", "What presses on each broker: factors, and sources of pressure."),
    )
)
_OTHERS = (
    Described("get", "/v1/health", "Whether clients are served.", answer=("ready", "reasons")),
    Described(
        "post",
        "/v1/drain",
        "End the gateway as SIGTERM does.",
        body=UndoBody,
        answer=("draining",),
        status="202",
        problems={413: _CHANGES[413], 415: _CHANGES[415]},
    ),
    Described(
        "get",
        "/v1/decisions",
        "The last refusals and holds, newest first.",
        {**_DECISIONS, "limit": _WHOLE, "before": _NUMBER},
        answer=("decisions",),
    ),
    Described(
        "get",
        "/v1/decisions/live",
        "Refusals and holds as they come, as server-sent events.",
        _DECISIONS,
        answer="text/event-stream",
        problems={503: "Too many clients follow already."},
    ),
    Described(
        "get",
        "/v1/decisions/{id}",
        "One refusal or hold.",
        answer=("id", "reasons"),
        problems={404: "The journal does not have it."},
    ),
)
PATHS: tuple[Described, ...] = (*_POLICIES, *_LISTS, *_OTHERS)
"""Every path and method."""


def described() -> dict[str, Any]:
    """The description, as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    models: dict[str, Any] = {"Problem": _problem_schema()}
    for each in PATHS:
        paths.setdefault(f"/api{each.path}", {})[each.method] = _operation(each, models)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sluicegate admin API", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": models,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
            },
        },
        "security": [{}, {"token": []}, {"certificate": []}],
    }


def _operation(each: Described, models: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": each.summary,
        "operationId": f"{each.method} {each.path}",
        "parameters": list(_parameters(each)),
        "responses": {each.status: {"description": "Done.", "content": _answer(each)}},
    }
    for status, text in {**_ALWAYS, **each.problems}.items():
        content = {} if status == 304 else {_PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        described = {"description": text, **({"content": content} if content else {})}
        operation["responses"][str(status)] = described
    if isinstance(each.body, str):
        operation["requestBody"] = {"required": True, "content": {each.body: {"schema": {"type": "object"}}}}
    elif each.body is not None:
        schema = each.body.model_json_schema(ref_template="#/components/schemas/{model}")
        models.update(schema.pop("$defs", {}))
        models[each.body.__name__] = schema
        reference = {"$ref": f"#/components/schemas/{each.body.__name__}"}
        operation["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": reference}}}
    return operation


def _parameters(each: Described) -> Sequence[dict[str, Any]]:
    parameters = [
        {"name": name, "in": "query", "required": name in each.required, "schema": schema}
        for name, schema in each.query.items()
    ]
    if "{number}" in each.path:
        parameters.append({"name": "number", "in": "path", "required": True, "schema": _NUMBER})
    if "{id}" in each.path:
        schema = {"type": "string", "minLength": 1, "maxLength": 200}
        parameters.append({"name": "id", "in": "path", "required": True, "schema": schema})
    if each.problems.get(412) is not None:
        parameters.append({"name": "If-Match", "in": "header", "required": False, "schema": _TEXT})
    return parameters


def _answer(each: Described) -> dict[str, Any]:
    if isinstance(each.answer, str):
        return {each.answer: {"schema": {}}}
    return {JSON_TYPE: {"schema": {"type": "object", "required": list(each.answer)}}}


def _problem_schema() -> dict[str, Any]:
    """RFC 9457, with a remedy."""
    texts = dict.fromkeys(("type", "title", "detail", "remedy"), _TEXT)
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail", "remedy"],
        "properties": {**texts, "status": {"type": "integer"}},
    }
