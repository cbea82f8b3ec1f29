"""Errors of the admin API: problem details (RFC 9457), each with a remedy."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from sluicegate.model import visible_json

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def json_response(
    value: object, status: int = HTTPStatus.OK, content_type: str = "application/json"
) -> Response:
    """An answer in JSON that controls no terminal, whatever names it quotes; no browser keeps it."""
    content = visible_json(json.dumps(value, ensure_ascii=False))
    return Response(content.encode(errors="replace"), status, {**_HEADERS, "content-type": content_type})


def problem(
    name: str,
    status: HTTPStatus,
    detail: str,
    remedy: str,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """An error response, as RFC 9457 describes it.

    :param name: of the kind of problem, by which programs tell it.
    :param detail: what is wrong with this request.
    :param remedy: what to do about it.
    :param headers: further headers of the answer.
    :param more: further members, such as the names that would be right.
    """
    body = {"type": f"/problems/{name}", "title": name.replace("-", " "), "status": status, "detail": detail}
    response = json_response({**body, "remedy": remedy, **more}, status, "application/problem+json")
    response.headers.update(headers or {})
    return response
