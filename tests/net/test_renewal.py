"""TLS files that change: read again, or the last good ones kept."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import handshake, serial

from sluicegate.config.models import BrokerTls, ClientTls
from sluicegate.config.tls import TlsFileError
from sluicegate.net.renewal import Look, Renewal


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def client_of(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.ca)


def test_files_that_stay_are_not_read_again(authority: Authority) -> None:
    cert, key = authority.issue("gate", "gate.example")
    renewal = Renewal(ClientTls(cert=cert, key=key))
    assert [renewal.look(), renewal.look(), renewal.context.renewals] == [Look.NOTHING, Look.NOTHING, 0]
    assert (renewal.look(force=True), renewal.context.renewals) == (Look.RENEWED, 1)


def test_a_new_pair_is_shown_from_the_next_handshake_on(authority: Authority) -> None:
    cert, key = authority.issue("gate", "gate.example")
    renewal = Renewal(ClientTls(cert=cert, key=key))
    first = serial(cert)
    assert handshake(renewal.context, client_of(authority), "gate.example").server == first
    authority.issue("gate", "gate.example")
    assert renewal.look() is Look.RENEWED
    assert handshake(renewal.context, client_of(authority), "gate.example").server == serial(cert) != first


def test_certificate_first_and_key_later_is_no_failure(authority: Authority) -> None:
    cert, key = authority.issue("gate", "gate.example")
    renewal = Renewal(ClientTls(cert=cert, key=key))
    first = serial(cert)
    new_cert, new_key = authority.issue("new", "gate.example")
    os.replace(new_cert, cert)
    assert renewal.look() is Look.NOTHING
    assert handshake(renewal.context, client_of(authority), "gate.example").server == first
    os.replace(new_key, key)
    assert renewal.look() is Look.RENEWED
    assert renewal.problem is None
    assert handshake(renewal.context, client_of(authority), "gate.example").server == serial(cert)


def _other_key(authority: Authority, cert: Path, key: Path) -> None:
    os.replace(authority.issue("other", "gate.example")[1], key)


def _half_a_certificate(authority: Authority, cert: Path, key: Path) -> None:
    cert.write_bytes(cert.read_bytes()[:300])


def _nothing_in_it(authority: Authority, cert: Path, key: Path) -> None:
    cert.write_bytes(b"")


def _gone(authority: Authority, cert: Path, key: Path) -> None:
    key.unlink()


def _encrypted(authority: Authority, cert: Path, key: Path) -> None:
    authority.issue("gate", "gate.example", passphrase="secret")


@pytest.mark.parametrize(
    ("spoil", "key_of_section", "remedy"),
    [
        (_other_key, "key", "name the key that belongs to the certificate"),
        (_half_a_certificate, "cert", "create them again"),
        (_nothing_in_it, "cert", "name a PEM file with the certificate"),
        (_gone, "key", "check the path and its permissions"),
        (_encrypted, "key", "store the key without a passphrase"),
    ],
)
def test_a_broken_pair_keeps_the_last_good_one_and_is_reported_once(
    authority: Authority,
    spoil: Callable[[Authority, Path, Path], None],
    key_of_section: str,
    remedy: str,
) -> None:
    cert, key = authority.issue("gate", "gate.example")
    renewal = Renewal(ClientTls(cert=cert, key=key))
    first, ends = serial(cert), renewal.expiries
    spoil(authority, Path(cert), Path(key))
    assert [renewal.look() for _ in range(4)] == [Look.NOTHING, Look.BROKEN, Look.NOTHING, Look.NOTHING]
    assert isinstance(renewal.problem, TlsFileError)
    assert (renewal.problem.key, remedy in renewal.problem.remedy) == (key_of_section, True)
    assert handshake(renewal.context, client_of(authority), "gate.example").server == first
    assert renewal.expiries == ends
    assert renewal.look(force=True) is Look.BROKEN
    authority.issue("gate", "gate.example")
    assert renewal.look() is Look.RENEWED
    assert renewal.problem is None


def test_a_secret_swapped_as_kubernetes_does_it(authority: Authority, tmp_path: Path) -> None:
    """The files are links into `..data`, itself a link that is replaced by another in one step."""

    def revision(name: str) -> Path:
        cert, key = authority.issue(name, "gate.example")
        directory = tmp_path / f"..{name}"
        directory.mkdir()
        os.replace(cert, directory / "tls.crt")
        os.replace(key, directory / "tls.key")
        return directory

    data = tmp_path / "..data"
    data.symlink_to(revision("one"))
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(data / name)
    cert = str(tmp_path / "tls.crt")
    renewal = Renewal(ClientTls(cert=cert, key=str(tmp_path / "tls.key")))
    first = serial(cert)
    (tmp_path / "..tmp").symlink_to(revision("two"))
    os.replace(tmp_path / "..tmp", data)
    assert renewal.look() is Look.RENEWED
    assert handshake(renewal.context, client_of(authority), "gate.example").server == serial(cert) != first


def test_a_change_of_permissions_is_noticed(authority: Authority) -> None:
    """It leaves the time of the content as it is, and may let the gateway read the file at last."""
    cert, key = authority.issue("gate", "gate.example")
    renewal = Renewal(ClientTls(cert=cert, key=key))
    Path(key).chmod(0o400)
    assert renewal.look() is Look.RENEWED


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_withdrawn_authority_vouches_for_no_new_connection(
    authority: Authority, tmp_path: Path, version: str
) -> None:
    """Not even for a client that resumes a session from before."""
    cert, key = authority.issue("gate", "gate.example")
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    trusted = tmp_path / "clients.pem"
    trusted.write_text(Path(old.ca).read_text() + Path(new.ca).read_text())
    renewal = Renewal(ClientTls(cert=cert, key=key, client_ca=str(trusted)))
    before, after = client_of(authority), client_of(authority)
    before.maximum_version = after.maximum_version = ssl.TLSVersion[version]
    before.load_cert_chain(*old.issue("alice", "alice"))
    after.load_cert_chain(*new.issue("bob", "bob"))
    seen = handshake(renewal.context, before, "gate.example")
    assert handshake(renewal.context, before, "gate.example", seen.session).is_resumed
    trusted.write_text(Path(new.ca).read_text())
    assert renewal.look() is Look.RENEWED
    for session in (None, seen.session):
        with pytest.raises(ssl.SSLError):
            handshake(renewal.context, before, "gate.example", session)
    assert handshake(renewal.context, after, "gate.example").client


def test_what_the_broker_is_shown_and_held_to_changes_too(authority: Authority, tmp_path: Path) -> None:
    own_cert, own_key = authority.issue("gate", "gate")
    trusted = tmp_path / "brokers.pem"
    trusted.write_text(Path(authority.ca).read_text())
    renewal = Renewal(BrokerTls(ca=str(trusted), cert=own_cert, key=own_key))

    def broker(of: Authority) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*of.issue("broker", "kafka.internal"))
        context.load_verify_locations(authority.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    before = broker(authority)
    assert handshake(before, renewal.context, "kafka.internal").client == serial(own_cert)
    other = Authority(tmp_path / "other")
    trusted.write_text(Path(other.ca).read_text())
    authority.issue("gate", "gate")
    assert renewal.look() is Look.RENEWED
    assert handshake(broker(other), renewal.context, "kafka.internal").client == serial(own_cert)
    with pytest.raises(ssl.SSLError):
        handshake(before, renewal.context, "kafka.internal")


def test_protocols_stay_agreed_on_after_a_renewal(authority: Authority) -> None:
    """httpx sets them itself, on the context that it is given."""
    cert, key = authority.issue("gate", "gate.example")
    renewal = Renewal(ClientTls(cert=cert, key=key), ["h2"])
    client = client_of(authority)
    client.set_alpn_protocols(["http/1.1", "h2"])

    def agreed() -> str | None:
        return handshake(renewal.context, client, "gate.example").protocol

    assert agreed() == "h2"
    authority.issue("gate", "gate.example")
    renewal.look()
    assert agreed() == "h2"
    renewal.context.set_alpn_protocols(["http/1.1"])
    authority.issue("gate", "gate.example")
    renewal.look()
    assert agreed() == "http/1.1"


def test_a_client_library_asks_for_the_configured_name_whatever_host_it_connects_to(
    authority: Authority,
) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("broker", "kafka.internal"))
    asked: list[str | None] = []
    server.sni_callback = lambda connection, name, context: asked.append(name)
    context = Renewal(BrokerTls(ca=authority.ca)).context
    handshake(server, context.asking_for("kafka.internal"), "10.0.0.7")
    assert asked == ["kafka.internal"]
    assert context.asking_for(None) is context
    with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
        handshake(server, context.asking_for("elsewhere.example"), "kafka.internal")


def test_a_delegating_context_trusts_no_authority_itself(authority: Authority) -> None:
    context = Renewal(BrokerTls(ca=authority.ca)).context
    assert (context.verify_mode, context.check_hostname, context.get_ca_certs()) == (
        ssl.CERT_REQUIRED,
        True,
        [],
    )
