"""What is said about TLS files, and that dates are read as a library reads them."""

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.certificates import Authority

from sluicegate.config.certificates import validities
from sluicegate.config.models import BrokerTls, ClientTls
from sluicegate.config.tls import TlsFileError, context_for_broker, context_for_clients, outdated, problems

HOUR = datetime.timedelta(hours=1)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.mark.parametrize("years", [-70, -30, 0, 20, 40, 100])
def test_dates_are_those_that_a_library_reads(authority: Authority, years: int) -> None:
    cert, _ = authority.issue(f"year{years}", "localhost", shifted_by=datetime.timedelta(days=years * 365))
    text = Path(cert).read_text() + Path(authority.ca).read_text()
    read = x509.load_pem_x509_certificates(text.encode())
    assert validities(text) == [(each.not_valid_before_utc, each.not_valid_after_utc) for each in read]


@settings(max_examples=200)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_certificate_is_read_or_refused(authority: Authority, at: int, byte: int) -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(Path(authority.ca).read_text()))
    der[at % len(der)] = byte
    try:
        assert len(validities(ssl.DER_cert_to_PEM_cert(bytes(der)))) == 1
    except ValueError:
        return  # told, not raised as something else


def test_an_expired_certificate_still_makes_a_context(authority: Authority) -> None:
    cert, key = authority.issue("late", "localhost", shifted_by=-9 * HOUR)
    tls = ClientTls(cert=cert, key=key, client_ca=authority.ca)
    assert problems(tls) == []
    [error] = outdated(tls, now())
    assert (error.key, "expired on" in error.problem) == ("cert", True)
    assert outdated(tls, now() - 9 * HOUR)[-1].key == "client_ca"
    assert context_for_clients(tls)


def test_authorities_count_as_expired_only_all_together(authority: Authority, tmp_path: Path) -> None:
    old, _ = authority.issue("once", "localhost", shifted_by=-9 * HOUR)
    both = tmp_path / "both.pem"
    both.write_text("# h\u00e9\n" + Path(old).read_text() + Path(authority.ca).read_text(), encoding="utf-8")
    assert outdated(BrokerTls(ca=str(both)), now()) == []
    [error] = outdated(BrokerTls(ca=old), now())
    assert error.key == "ca"
    assert context_for_broker(BrokerTls(ca=str(both))).get_ca_certs()


def test_all_files_of_a_section_are_reported_together(tmp_path: Path) -> None:
    tls = ClientTls(cert=str(tmp_path / "c"), key=str(tmp_path / "k"), client_ca=str(tmp_path / "ca"))
    assert [error.key for error in problems(tls)] == ["cert", "key", "client_ca"]


def test_an_encrypted_key_is_refused_where_a_connection_would_use_it(authority: Authority) -> None:
    cert, key = authority.issue("closed", "localhost", passphrase="secret")
    with pytest.raises(TlsFileError, match="is encrypted"):
        context_for_clients(ClientTls(cert=cert, key=key))
    with pytest.raises(TlsFileError, match="is encrypted"):
        context_for_broker(BrokerTls(cert=cert, key=key))
