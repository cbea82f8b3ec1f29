"""The subject of a client's certificate is named as OpenSSL names it."""

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.gateway.certificates import Authority

from sluicegate.net.http_peers import client_subject, subject_of

NAMES = {"CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME}


class Named(Authority):
    """Signs certificates of any subject."""

    subject = x509.Name([])

    def issue_for(self, subject: x509.Name) -> str:
        """The file of a certificate, made by what signs for the authority itself."""
        self._name = subject
        return self._write("named", self._key, self._sign("named", self._key, is_ca=True))


@pytest.mark.parametrize(
    "parts",
    [
        [("CN", "ops")],
        [("O", "Example"), ("OU", "gate"), ("CN", "ops")],
        [("O", "a,b+c"), ("CN", '#x"y\\z;<>')],
        [("O", " padded "), ("CN", "a b=c")],
    ],
)
def test_the_subject_is_as_openssl_prints_it(parts: list[tuple[str, str]], tmp_path: Path) -> None:
    subject = x509.Name([x509.NameAttribute(NAMES[name], value) for name, value in parts])
    path = Named(tmp_path).issue_for(subject)
    command = ["openssl", "x509", "-in", path, "-noout", "-subject", "-nameopt", "RFC2253"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    context = ssl.create_default_context(cafile=path)
    [shown] = context.get_ca_certs()
    assert f"subject={subject_of(shown)}\n" == printed


def test_who_shows_none_has_no_subject() -> None:
    plain: dict[str, Any] = {"type": "http"}
    assert client_subject(plain) is None
    assert client_subject({**plain, "extensions": {"tls": {"client_cert_name": "CN=a"}}}) == "CN=a"
