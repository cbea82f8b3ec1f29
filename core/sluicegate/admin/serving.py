"""Paths of the admin API: one route for each, and what goes wrong in a handler as a problem."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sluicegate.admin.access import Caller
from sluicegate.admin.bodies import BadRequestError, query_flag
from sluicegate.admin.problems import problem
from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.config.errors import ConfigErrors
from sluicegate.runtime.policy_desk import UnknownRevisionError
from sluicegate.runtime.promoting import NotReadyError
from sluicegate.store import StoreError
from sluicegate.store.policy_store import StoreConflictError

Handler = Callable[[Request], Awaitable[Response]]


_SAFE = ("GET", "HEAD")


def resource(path: str, *, plans: bool = False, **handlers: Handler) -> Route:
    """One path with its methods; what goes wrong in a handler becomes a problem.

    A caller who may only read is refused other methods than GET.

    :param plans: whether all of these change nothing if the query says `dry_run=true`; then anyone who may
        read may use them so.
    :param handlers: by method.
    """
    guarded_handlers = {
        method: _guarded(handler if method in _SAFE else _for_writers(handler, plans=plans))
        for method, handler in handlers.items()
    }

    async def dispatch(request: Request) -> Response:
        return await guarded_handlers["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, dispatch, methods=list(handlers))


def _for_writers(handler: Handler, *, plans: bool) -> Handler:
    """A handler that a caller who may only read cannot use, but for a dry run."""

    async def call(request: Request) -> Response:
        caller: Caller = request.scope["caller"]
        if caller.may_write or (plans and query_flag(request.query_params, "dry_run")):
            return await handler(request)
        remedy = "ask as a caller whose scope is write, or use `sluicegate policies` as the gateway's user"
        if plans:
            remedy += "; dry_run=true shows what it would do"
        return problem("read-only", HTTPStatus.FORBIDDEN, "this caller may only read", remedy)

    return call


def _guarded(handler: Handler) -> Handler:
    """A handler whose errors become problems."""

    async def call(request: Request) -> Response:
        try:
            return await handler(request)
        except BadRequestError as error:
            return error.response
        except UnknownRevisionError as error:
            return problem("unknown-revision", HTTPStatus.NOT_FOUND, *_parts(error))
        except NotReadyError as error:
            return problem("not-ready-to-promote", HTTPStatus.CONFLICT, *_parts(error))
        except PolicyRefusedError as error:
            return problem("refused", HTTPStatus.UNPROCESSABLE_ENTITY, *_parts(error))
        except ConfigErrors as error:
            findings = [finding.as_json() for finding in error.errors]
            remedy = findings[0]["remedy"]
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            detail = "the document cannot be used"
            return problem("invalid-document", status, detail, str(remedy), findings=findings)
        except StoreConflictError as error:
            return problem("conflict", HTTPStatus.PRECONDITION_FAILED, error.message, error.remedy)
        except (StoreError, PolicyUnavailableError) as error:
            return problem("store-unavailable", HTTPStatus.SERVICE_UNAVAILABLE, *_parts(error))

    return call


def _parts(error: Exception) -> tuple[str, str]:
    """What is wrong, and the remedy behind the colon, if there is one."""
    detail, _, remedy = str(error).partition(": ")
    return (detail, remedy) if remedy else (detail, "see the policies in docs/configuration.md")
