"""SASL as it passes through: names are read, never checked here."""

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import (
    entities,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.sasl import (
    is_accepted,
    principal_of,
    sasl_authenticate_result,
    sasl_mechanism,
    sasl_token,
)

few = settings(max_examples=15, deadline=None)


@pytest.mark.parametrize("version", range(2))
@few
@given(st.data())
def test_the_mechanism(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(request_schema(ApiKey.SASL_HANDSHAKE, version)))
    frame = request_frame(entity)
    assert sasl_mechanism(frame, parse_request_head(frame)) == entity.mechanism


@pytest.mark.parametrize("version", range(3))
@few
@given(st.data())
def test_the_token_and_its_result(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(request_schema(ApiKey.SASL_AUTHENTICATE, version)))
    frame = request_frame(entity)
    assert sasl_token(frame, parse_request_head(frame)) == entity.auth_bytes
    answer = data.draw(entities(response_schema(ApiKey.SASL_AUTHENTICATE, version)))
    result = sasl_authenticate_result(response_frame(answer), version)
    assert result == (answer.error_code, answer.auth_bytes)


@pytest.mark.parametrize(
    ("mechanism", "code", "token", "accepted"),
    [
        ("PLAIN", 0, b"", True),
        ("PLAIN", 58, b"", False),
        ("PLAIN", 1, b"", False),
        ("SCRAM-SHA-256", 0, b"r=nonce,s=salt,i=4096", False),  # RFC 5802: the first answer
        ("SCRAM-SHA-512", 0, b"v=signature", True),
        ("SCRAM-SHA-256", 0, b"e=invalid-proof", False),
        ("SCRAM-SHA-512", 58, b"v=signature", False),
        ("OAUTHBEARER", 0, b"", True),
        ("OAUTHBEARER", 0, b'{"status":"invalid_token"}', False),  # RFC 7628: a refusal with its reason
    ],
)
def test_the_broker_accepts_a_client_with_its_last_answer(
    mechanism: str, code: int, token: bytes, accepted: bool
) -> None:
    assert is_accepted(mechanism, code, token) is accepted


def _jwt(claims: object) -> bytes:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"n,,\x01auth=Bearer {part({'alg': 'none'})}.{part(claims)}.sig\x01\x01".encode()


@pytest.mark.parametrize(
    ("mechanism", "token", "name"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"alice\0alice\0secret", "alice"),
        ("PLAIN", "\0zoë\0secret".encode(), "zoë"),
        ("PLAIN", b"\0\0secret", None),
        ("PLAIN", b"alice", None),
        ("PLAIN", b"\0a\0b\0c", None),
        ("PLAIN", b"\0\xff\0b", None),
        ("SCRAM-SHA-256", b"n,,n=alice,r=abc", "alice"),
        ("SCRAM-SHA-512", b"n,a=alice,n=al=2Cic=3De,r=abc", "al,ic=e"),
        ("SCRAM-SHA-512", b"n,,n=token-id,r=abc,tokenauth=true", None),
        ("SCRAM-SHA-512", b"n,,n=token-id,r=abc,tokenauth=false,tokenauth=TRUE", None),
        ("SCRAM-SHA-512", b"n,,n=alice,r=abc,tokenauth=true,tokenauth=false", "alice"),
        ("SCRAM-SHA-512", b"n,,n=alice,r=abc,other=1", "alice"),
        ("SCRAM-SHA-256", b"n,,m=x=y,n=alice,r=abc", "alice"),
        ("SCRAM-SHA-256", b"n,,m=x", None),
        ("SCRAM-SHA-256", b"n,,r=abc", None),
        ("SCRAM-SHA-256", b"", None),
        ("OAUTHBEARER", _jwt({"sub": "svc-7"}), "svc-7"),
        ("OAUTHBEARER", _jwt({"sub": "a"}).replace(b"Bearer ", b"bEARER  "), "a"),
        ("OAUTHBEARER", _jwt({"sub": "forged"})[:-1] + _jwt({"sub": "real"})[len("n,,\x01") :], "real"),
        ("OAUTHBEARER", _jwt({"sub": "a"})[:-1] + b"auth=other\x01\x01", None),
        ("OAUTHBEARER", _jwt({"sub": "a"})[:-1] + b"Auth=Bearer x.y.z\x01trace=7\x01\x01", "a"),
        ("OAUTHBEARER", _jwt({"sub": 7}), None),
        ("OAUTHBEARER", _jwt({}), None),
        ("OAUTHBEARER", _jwt(["sub"]), None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer opaque\x01\x01", None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.%%%.c\x01\x01", None),
        ("OAUTHBEARER", b"n,,\x01\x01", None),
        ("GSSAPI", b"\x60\x82", None),
        ("", b"", None),
    ],
)
def test_claimed_names_are_read(mechanism: str, token: bytes, name: str | None) -> None:
    assert principal_of(mechanism, token) == name


@pytest.mark.parametrize("size", range(1, 21))
def test_claims_of_any_length_are_read(size: int) -> None:
    """Tokens leave out the padding of base64."""
    assert principal_of("OAUTHBEARER", _jwt({"sub": "n" * size})) == "n" * size


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "?"]), st.binary(max_size=60))
def test_any_token_is_read_without_an_error(mechanism: str, token: bytes) -> None:
    assert principal_of(mechanism, token) != ""


def test_deeply_nested_claims_do_no_harm() -> None:
    claims = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    assert principal_of("OAUTHBEARER", f"n,,\x01auth=Bearer a.{claims}.c\x01\x01".encode()) is None
