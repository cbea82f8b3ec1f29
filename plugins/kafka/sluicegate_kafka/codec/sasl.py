"""SASL as it passes through: the mechanism, who a client claims to be, and whether the broker accepted it."""

import base64
import binascii
import re

import orjson

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_body
from sluicegate_kafka.codec.primitives import Cursor, guarded

_AUTH = "\x01auth="
_DELEGATED = ",tokenauth="
_BEARER = re.compile(r"bearer +([-_.a-z0-9]+)", re.ASCII | re.IGNORECASE)


@guarded
def sasl_mechanism(frame: bytes, head: RequestHead) -> str:
    """The mechanism that a SaslHandshake request asks for.

    :raises ProtocolError: when it is malformed.
    """
    return Cursor(frame, head.body, is_flexible(ApiKey.SASL_HANDSHAKE, head.version)).string()


@guarded
def sasl_token(frame: bytes, head: RequestHead) -> bytes:
    """The token in a SaslAuthenticate request. It may hold a password: never log it.

    :raises ProtocolError: when it is malformed.
    """
    cursor = Cursor(frame, head.body, is_flexible(ApiKey.SASL_AUTHENTICATE, head.version))
    return cursor.byte_string() or b""


@guarded
def sasl_authenticate_result(frame: bytes, version: int) -> tuple[int, bytes]:
    """The error code and the broker's token in a SaslAuthenticate response; see `is_accepted`.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.SASL_AUTHENTICATE, version)
    code = cursor.i16()
    cursor.nullable_string()
    return code, cursor.byte_string() or b""


def is_accepted(mechanism: str, code: int, token: bytes) -> bool:
    """Whether a SaslAuthenticate response says that the broker has verified the client.

    Error code 0 alone does not: SCRAM's first answer has it before any proof was seen, and so has
    OAUTHBEARER's refusal of a token, whose reason the client must acknowledge.

    :param mechanism: as in the SaslHandshake request.
    :param code: error code of the response.
    :param token: the broker's token in it.
    """
    if code != 0:
        return False
    return token.startswith(b"v=") if mechanism.startswith("SCRAM-") else not token


def principal_of(mechanism: str, token: bytes) -> str | None:
    """Who a client claims to be in its first SASL token; it counts only once the broker has accepted it.

    :param mechanism: as in the SaslHandshake request.
    :param token: the first token that the client sends.
    :return: the name without `User:`; None if the token has no name (GSSAPI, delegation tokens,
        client certificates) or is unreadable.
    """
    try:
        if mechanism == "PLAIN":
            return _plain(token)
        if mechanism.startswith("SCRAM-"):
            return _scram(token)
        if mechanism == "OAUTHBEARER":
            return _oauth(token)
    except (ValueError, binascii.Error):
        return None
    return None


def _plain(token: bytes) -> str | None:
    """RFC 4616: authzid NUL authcid NUL password; a broker insists that the first is empty or the same."""
    fields = token.decode().split("\0")
    return fields[1] or None if len(fields) == 3 else None


def _scram(token: bytes) -> str | None:
    """RFC 5802: `n,[a=authzid],[m=reserved,]n=name,r=nonce[,extensions]`; the last of equal ones counts."""
    text = token.decode()
    fields = text.split(",", 5)
    if fields[2:] and fields[2].startswith("m="):
        del fields[2]
    if len(fields) < 4 or not fields[2].startswith("n="):
        return None
    _, matched, value = text.rpartition(_DELEGATED)
    if matched and value.partition(",")[0].lower() == "true":
        return None  # the name is a delegation token's id; only the broker knows its owner
    return fields[2][2:].replace("=2C", ",").replace("=3D", "=") or None


def _oauth(token: bytes) -> str | None:
    """RFC 7628: a GS2 header, then pairs ended by the byte 1; a broker reads the last bearer token."""
    _, _, header = token.decode().rpartition(_AUTH)
    bearer = _BEARER.fullmatch(header.partition("\x01")[0])
    payload = bearer[1].split(".", 2)[1:2] if bearer else []
    return _subject(payload[0]) if payload else None


def _subject(payload: str) -> str | None:
    claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) and subject else None
