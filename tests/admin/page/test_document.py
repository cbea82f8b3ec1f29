"""The page as it is served: one document that allows nothing but itself."""

import base64
import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from tests.admin.lab import Lab, Supervised

from sluicegate.runtime.plugins import CHOICE

MOST_BYTES = 150_000
WAYS = (
    *("innerHTML", "outerHTML", "insertAdjacentHTML", r"document\.write", r"\beval\(", "new Function"),
    *("srcdoc", "DOMParser", "createContextualFragment", "localStorage", "cookie"),
)
"""By which text becomes markup or code, or is kept for longer than a tab lives."""
FILES = {each.name: each.read_text() for each in files("sluicegate.admin.page").iterdir() if each.is_file()}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv(CHOICE, "kafka")
    made = Lab(Supervised(tmp_path))
    yield made
    made.close()


async def answer(lab: Lab, method: str = "GET") -> httpx.Response:
    transport = httpx.ASGITransport(lab.app, client=("192.0.2.7", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, "/")


async def test_it_is_one_small_document_without_anything_from_elsewhere(lab: Lab) -> None:
    page = await answer(lab)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert len(page.content) < MOST_BYTES
    assert re.findall(r"(?:src|href)=\"(?!data:,|#)[^\"]*\"", page.text) == []
    assert set(re.findall(r"https?://[^\s\"'`]+", page.text)) == {"http://www.w3.org/2000/svg"}
    assert "/*style*/" not in page.text
    assert page.text.count("<script") == page.text.count("</script") == 1


async def test_head_and_other_methods(lab: Lab) -> None:
    head = await answer(lab, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert (await answer(lab, "POST")).status_code == 405


async def test_its_policy_allows_its_own_script_and_style_alone(lab: Lab) -> None:
    page = await answer(lab)
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        found = re.search(f"<{tag}>(.*)</{tag}>", page.text, re.DOTALL)
        assert found is not None
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert policy[directive] == f"'sha256-{digest}'"
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in page.headers


def test_every_file_is_in_it() -> None:
    from sluicegate.admin.page import _SCRIPTS

    assert {name for name in FILES if name.endswith(".js")} == {f"{name}.js" for name in _SCRIPTS}


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith(".js")))
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    assert re.findall("|".join(WAYS), FILES[name]) == []
