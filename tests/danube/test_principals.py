import base64
import json

import pytest

from sluicegate_danube.principals import principal


def token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.c2ln"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_subject_of_a_token_is_the_principal(scheme: str) -> None:
    headers = [(":path", "/"), ("authorization", f"{scheme} {token({'sub': 'orders', 'exp': 1})}")]
    assert principal(headers) == "orders"


def test_the_claim_of_danube_names_the_principal() -> None:
    claims = {"sub": "orders", "principal_name": "service-a"}
    assert principal([("authorization", f"Bearer {token(claims)}")]) == "service-a"
    assert principal([("authorization", f"Bearer {token({'sub': 'orders', 'principal_name': 7})}")]) is None


def test_half_of_a_character_in_a_name_is_written_out() -> None:
    assert principal([("authorization", f"Bearer {token({'sub': 'an' + chr(0xD800)})}")]) == r"an\ud800"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Basic b3JkZXJzOnNlY3JldA==",
        "Bearer ",
        "Bearer opaque",
        "Bearer a.!!!.c",
        f"Bearer {token([])}",
        f"Bearer {token({'sub': 7})}",
        f"Bearer {token({'sub': ''})}",
        f"Bearer {token({'iss': 'danube'})}",
        "Bearer a." + "A" * 20_000 + ".c",
        "Bearer a." + base64.urlsafe_b64encode(b"[" * 12_000).decode() + ".c",
    ],
)
def test_an_unreadable_token_names_no_principal(value: str) -> None:
    assert principal([("authorization", value)]) is None


def test_two_tokens_name_no_principal() -> None:
    headers = [("authorization", f"Bearer {token({'sub': name})}") for name in ("one", "two")]
    assert principal(headers) is None
    assert principal([]) is None
