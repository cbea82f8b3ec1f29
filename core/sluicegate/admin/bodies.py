"""Bodies of requests to the admin API: bounded, of the right type, and validated."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sluicegate.admin.problems import problem
from sluicegate.runtime.edits import first_problem

MOST_BYTES = 1 << 20
JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
_PAGE = 200
_LARGEST_PAGE = 1_000
"""Rows of one answer."""
Body = TypeVar("Body", bound=BaseModel)
Broker = TypeVar("Broker")


class UndoBody(BaseModel):
    """Why a revision is undone."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str = Field(default="", max_length=1_000, description="Why, for the history.")


class BadRequestError(Exception):
    """A request that cannot be used.

    :param response: the answer to it.
    """

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


async def read_json(request: Request, model: type[Body]) -> Body:
    """Read and validate a body.

    :raises BadRequestError: if it is too large, of another type, or invalid.
    """
    text = await read_text(request, JSON_TYPE)
    try:
        return model.model_validate(json.loads(text or "{}"))
    except RecursionError:
        raise _invalid("the JSON is nested too deeply") from None
    except ValidationError as error:
        raise _invalid(first_problem(error)) from None
    except ValueError as error:
        raise _invalid(f"not JSON: {error}") from None


async def read_text(request: Request, content_type: str) -> str:
    """Read a body of one type as text.

    :raises BadRequestError: if it is too large, of another type, or not UTF-8.
    """
    sent_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent_type != content_type:
        detail = f"the body is {sent_type or 'of no type'}"
        remedy = f"send it with `Content-Type: {content_type}`"
        raise BadRequestError(problem("wrong-type", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail, remedy))
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            # While it comes: the length that its head names may be wrong, or absent.
            if len(body) > MOST_BYTES:
                detail = f"the body has more than {MOST_BYTES} bytes"
                status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                raise BadRequestError(problem("too-large", status, detail, "send several changes"))
        return body.decode()
    except UnicodeDecodeError:
        raise _invalid("the body is not UTF-8") from None
    except ClientDisconnect:
        raise _invalid("the body is not complete") from None


def query_number(query: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    """Read a number of the query.

    :raises BadRequestError: if it is none, or outside of its range.
    """
    text = query.get(name, str(default))
    # `int` takes signs, blanks and digits of other scripts too, and long for thousands of digits.
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not lowest <= int(text) <= highest:
        raise _invalid(f"{name} is {text[:40]!r}: expected a number from {lowest} to {highest}")
    return int(text)


def query_limit(query: Mapping[str, str], default: int) -> int:
    """How many rows the query asks for, `limit`; raises as `query_number` does."""
    return query_number(query, "limit", default, 1, _LARGEST_PAGE)


def query_page(query: Mapping[str, str]) -> tuple[int, int]:
    """Which rows the query asks for: `offset` and `limit`; raises as `query_number` does."""
    return query_number(query, "offset", 0, 0, 2**31), query_limit(query, _PAGE)


def query_text(query: Mapping[str, str], name: str, longest: int) -> str:
    """Read a text of the query; empty if it is absent.

    :raises BadRequestError: if it has more than `longest` characters.
    """
    text = query.get(name, "")
    if len(text) > longest:
        raise _invalid(f"{name} has more than {longest} characters")
    return text


def query_broker(query: Mapping[str, str], known: Mapping[str, Broker]) -> Broker:
    """The broker that the query names; it may be left out if there is only one.

    :param known: by name; empty while the gateway starts.
    :raises BadRequestError: if it is not known, or not named.
    """
    name = query.get("broker")
    if not known:
        detail, remedy = "the gateway starts: no policies are in force yet", "ask again in a moment"
        retry = {"retry-after": "1"}
        raise BadRequestError(problem("starting", HTTPStatus.SERVICE_UNAVAILABLE, detail, remedy, retry))
    if name is None and len(known) == 1:
        [name] = known
    names = list(known)
    remedy = f"name one in the query: ?broker={names[0]}"
    if name is None:
        detail = "the gateway has several brokers"
        raise BadRequestError(
            problem("broker-not-named", HTTPStatus.BAD_REQUEST, detail, remedy, brokers=names)
        )
    if name not in known:
        detail = f"no broker {name!r}"
        raise BadRequestError(problem("unknown-broker", HTTPStatus.NOT_FOUND, detail, remedy, brokers=names))
    return known[name]


def query_flag(query: Mapping[str, str], name: str) -> bool:
    """Read a switch of the query: absent, `true` or `false`.

    :raises BadRequestError: if it is something else.
    """
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise _invalid(f"{name} is {text[:40]!r}: expected true or false")
    return text == "true"


def _invalid(detail: str) -> BadRequestError:
    remedy = "see /api/v1/openapi.json"
    return BadRequestError(problem("invalid-request", HTTPStatus.BAD_REQUEST, detail, remedy))
