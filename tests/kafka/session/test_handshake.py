"""The principal of a connection: only what the broker has verified counts, whatever the client claims."""

import base64
import json
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import request_schema, response_schema
from tests.kafka.session.wire import Bench, Wire, request, response

from sluicegate.model import ANONYMOUS

_HANDSHAKE, _AUTHENTICATE = 17, 36
_CLAIMS = base64.urlsafe_b64encode(json.dumps({"sub": "alice"}).encode()).decode().rstrip("=")
_TOKENS = {
    "PLAIN": b"\0alice\0secret",
    "SCRAM-SHA-256": b"n,,n=alice,r=abc",
    "OAUTHBEARER": f"n,,\x01auth=Bearer a.{_CLAIMS}.c\x01\x01".encode(),
}


class Login:
    """A client that logs in through the gateway, and a broker that says what a test wants."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.exempt = frozenset({"User:alice"})
        self.bench.set()
        self.wire = Wire(self.bench)

    @property
    def who(self) -> tuple[str, bool]:
        """The principal, and whether it is exempt."""
        connection = self.wire.session.connection
        return connection.principal, connection.exempt

    def choose(self, mechanism: str) -> None:
        """The handshake."""
        self.wire.client_sends(request(request_schema(_HANDSHAKE, 1)(mechanism=mechanism)))
        accepted: Any = response_schema(_HANDSHAKE, 1)
        self.wire.broker_sends(response(accepted(error_code=ErrorCode.none, mechanisms=(mechanism,))))

    def claim(self, token: bytes) -> None:
        """A token of the client."""
        self.wire.client_sends(request(request_schema(_AUTHENTICATE, 2)(auth_bytes=token)))

    def answer(self, token: bytes = b"", error: ErrorCode = ErrorCode.none) -> None:
        """The broker's answer to the oldest token."""
        schema: Any = response_schema(_AUTHENTICATE, 2)
        text = "no" if error else None
        entity = schema(error_code=error, error_message=text, auth_bytes=token)
        self.wire.broker_sends(response(entity))


_ALICE = ("User:alice", True)
_NOBODY = (ANONYMOUS, False)


def test_a_changed_exemption_applies_to_open_connections() -> None:
    login = Login()
    login.choose("PLAIN")
    login.claim(_TOKENS["PLAIN"])
    login.answer()
    assert login.who == _ALICE
    login.bench.exempt = frozenset()
    login.bench.set()
    assert login.who == ("User:alice", False)
    login.bench.exempt = frozenset({"User:alice", ANONYMOUS})
    login.bench.set()
    assert login.who == _ALICE


def test_who_has_not_logged_in_is_never_exempt() -> None:
    login = Login()
    login.bench.exempt = frozenset({ANONYMOUS})
    login.bench.set()
    assert login.who == _NOBODY


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_login_in_one_step(mechanism: str) -> None:
    login = Login()
    login.choose(mechanism)
    login.claim(_TOKENS[mechanism])
    assert login.who == _NOBODY
    login.answer()
    assert login.who == _ALICE


def test_scram_counts_when_the_proof_was_verified() -> None:
    login = Login()
    login.choose("SCRAM-SHA-256")
    login.claim(_TOKENS["SCRAM-SHA-256"])
    login.answer(b"r=abcdef,s=c2FsdA==,i=4096")
    assert login.who == _NOBODY
    login.claim(b"c=biws,r=abcdef,p=cHJvb2Y=")
    assert login.who == _NOBODY
    login.answer(b"v=c2lnbmF0dXJl")
    assert login.who == _ALICE


@pytest.mark.parametrize("mechanism", _TOKENS)
def test_an_error_gives_no_name(mechanism: str) -> None:
    login = Login()
    login.choose(mechanism)
    login.claim(_TOKENS[mechanism])
    login.answer(error=ErrorCode.sasl_authentication_failed)
    assert login.who == _NOBODY


def test_oauth_refuses_without_an_error_code_first() -> None:
    login = Login()
    login.choose("OAUTHBEARER")
    login.claim(_TOKENS["OAUTHBEARER"])
    login.answer(b'{"status":"invalid_token"}')
    assert login.who == _NOBODY


def test_the_principal_is_that_of_the_accepted_token() -> None:
    login = Login()
    login.choose("PLAIN")
    login.claim(b"\0bob\0secret")
    login.wire.client_sends(request(request_schema(_HANDSHAKE, 1)(mechanism="PLAIN")))
    login.claim(_TOKENS["PLAIN"])
    login.answer()
    assert login.who == ("User:bob", False)


def test_a_new_login_that_fails_changes_nothing() -> None:
    login = Login()
    login.choose("PLAIN")
    login.claim(b"\0bob\0secret")
    login.answer()
    login.choose("PLAIN")
    login.claim(_TOKENS["PLAIN"])
    login.answer(error=ErrorCode.sasl_authentication_failed)
    assert login.who == ("User:bob", False)


def test_only_the_first_token_names_the_client() -> None:
    """A delegation token's owner is not told; nor may the proof that follows, with an extension, name one."""
    login = Login()
    login.choose("SCRAM-SHA-256")
    login.claim(b"n,,n=token-id,r=abc,tokenauth=true")
    login.answer(b"r=abcdef,s=c2FsdA==,i=4096")
    login.claim(b"c=biws,r=abcdef,n=alice,p=cHJvb2Y=")
    login.answer(b"v=c2lnbmF0dXJl")
    assert login.who == _NOBODY


def test_a_client_has_logged_in_with_its_first_request_where_it_begins_no_login() -> None:
    wire = Login().wire
    assert not wire.session.is_logged_in
    schema: Any = request_schema(18, 0)
    frame = request(schema())
    wire.client_sends(frame[:14])
    assert not wire.session.is_logged_in
    wire.client_sends(frame[14:])
    assert wire.session.is_logged_in


def test_a_login_that_was_begun_is_open_until_the_broker_has_accepted_it() -> None:
    login = Login()
    found = []

    def look() -> None:
        found.append(login.wire.session.is_logged_in)

    login.choose("PLAIN")
    look()
    login.claim(_TOKENS["PLAIN"])
    look()
    login.answer()
    look()
    login.choose("PLAIN")  # again, KIP-368
    look()
    assert found == [False, False, True, True]


def test_a_login_of_unknown_length_ends_with_the_next_request() -> None:
    login = Login()
    login.choose("CUSTOM")
    login.claim(b"first")
    login.answer(b"a last word of the broker")
    assert not login.wire.session.is_logged_in
    schema: Any = request_schema(3, 1)
    login.wire.client_sends(request(schema(topics=None)))
    assert login.wire.session.is_logged_in
