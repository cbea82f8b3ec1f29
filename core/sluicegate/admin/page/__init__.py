"""The page that shows what the admin API tells and changes what it may: one document, made of plain files."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_SCRIPTS = (
    *("dom", "asking", "figures", "tables", "sampling", "changing", "effective"),
    *("overview", "topics", "held", "decisions", "policies", "history", "factors"),
    "main",
)
"""In the order in which they use each other."""


def page_route() -> Route:
    """The page at `/`. It holds no data: it asks the API on behalf of who looks at it."""
    style, script = _style(), _script()
    text = _read("index.html").replace("/*style*/", style).replace("/*script*/", script)
    body, headers = text.encode(), _headers(style, script)

    async def page(request: Request) -> Response:
        return Response(body, headers=headers, media_type="text/html")

    return Route("/", page, methods=["GET"])


def _headers(style: str, script: str) -> dict[str, str]:
    """No script, style or address but the page's own, and no frame of another site around it."""
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "content-security-policy": policy,
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }


def _style() -> str:
    return f"\n{_read('style.css')}"


def _script() -> str:
    """All scripts as one, so that none of their names is the window's."""
    parts = "\n".join(_read(f"{name}.js") for name in _SCRIPTS)
    return f'\n"use strict";\n(() => {{\n{parts}}})();\n'


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
