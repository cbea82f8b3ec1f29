"""Unraisable exceptions: a server name that is not ASCII, while a certificate is chosen."""

import ssl
import sys
from pathlib import Path

import pytest
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import handshake, hello_with

from sluicegate.config.models import ClientTls
from sluicegate.config.tls import context_for_clients
from sluicegate.runtime import unraisable


def test_a_client_with_a_name_that_cannot_be_encoded_is_logged_and_refused_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back after the test
    unraisable.log_unraisable()
    authority = Authority(tmp_path)
    cert, key = authority.issue("gate", "gate.example")
    other = {"names": ["kafka.example"], "cert": cert, "key": key}
    server = context_for_clients(
        ClientTls.model_validate({"cert": cert, "key": key, "certificates": [other]})
    )
    client = ssl.create_default_context(cafile=authority.ca)
    hello = ssl.MemoryBIO()
    hello.write(hello_with(client, "gate.example", b"g\xffte.example"))
    asked = server.wrap_bio(hello, ssl.MemoryBIO(), server_side=True)
    with pytest.raises(ssl.SSLError):
        asked.do_handshake()
    [record] = caplog.records
    assert record.name == "python"  # of equal lines of others' loggers one a minute is written
    assert record.getMessage().startswith("exception without a caller: UnicodeDecodeError: 'ascii' codec")
    assert handshake(server, client, "gate.example").server
