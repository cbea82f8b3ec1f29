"""What `tls` sections say of handshakes: certificates by server name, versions, cipher suites."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import handshake, serial

from sluicegate.config.ciphers import known_ciphers
from sluicegate.config.models import BrokerTls, ClientTls, Tls
from sluicegate.config.tls import (
    TlsFileError,
    context_for_broker,
    context_for_clients,
    expiries,
    files,
    problems,
)

AES128 = "ECDHE-ECDSA-AES128-GCM-SHA256"
AES256 = "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def gate(authority: Authority) -> dict[str, str]:
    return dict(zip(("cert", "key"), authority.issue("gate", "gate.example"), strict=True))


def client_of(authority: Authority, verifies_name: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.ca)
    context.check_hostname = verifies_name
    return context


def named(authority: Authority, *names: str) -> dict[str, Any]:
    cert, key = authority.issue("-".join(names).replace("*", "any"), names[0])
    return {"names": names, "cert": cert, "key": key}


def client_tls(gate: dict[str, str], **more: Any) -> ClientTls:
    return ClientTls.model_validate({**gate, **more})


def refusal(model: type[Any], **section: object) -> str:
    with pytest.raises(ValidationError) as refused:
        model(**section)
    error = refused.value.errors()[0]
    return f"{error['msg']}; {error['ctx']['remedy']}"


def test_the_client_chooses_the_certificate_by_the_name_that_it_asks_for(
    authority: Authority, gate: dict[str, str]
) -> None:
    exact = named(authority, "kafka.example", "KAFKA.old.example")
    wild, inner = named(authority, "*.teams.example"), named(authority, "a.teams.example")
    tls = client_tls(gate, certificates=[exact, wild, inner])
    server, client = context_for_clients(tls), client_of(authority, verifies_name=False)
    for name, section in {
        "gate.example": gate,
        "kafka.example": exact,
        "kafka.old.example": exact,
        "Kafka.Example": exact,
        "b.teams.example": wild,
        "a.teams.example": inner,
        "x.b.teams.example": gate,
        "teams.example": gate,
        "127.0.0.1": gate,
        "other.example": gate,
        None: gate,
    }.items():
        assert handshake(server, client, name).server == serial(str(section["cert"])), name


def test_clients_are_verified_alike_whatever_name_they_ask_for(
    authority: Authority, gate: dict[str, str], tmp_path: Path
) -> None:
    other = named(authority, "kafka.example")
    tls = ClientTls.model_validate({**gate, "client_ca": authority.ca, "certificates": [other]})
    server = context_for_clients(tls)
    strange = Authority(tmp_path)
    for name in ("gate.example", "kafka.example"):
        with pytest.raises(ssl.SSLError):
            handshake(server, client_of(authority), name)
        known, unknown = client_of(authority), client_of(authority)
        known.load_cert_chain(*authority.issue("alice", "alice"))
        assert handshake(server, known, name).client
        unknown.load_cert_chain(*strange.issue("mallory", "mallory"))
        with pytest.raises(ssl.SSLError):
            handshake(server, unknown, name)


def test_protocols_are_agreed_on_alike_whatever_name_clients_ask_for(
    authority: Authority, gate: dict[str, str]
) -> None:
    """Without h2 a gRPC client gives up."""
    server = context_for_clients(client_tls(gate, certificates=[named(authority, "kafka.example")]), ["h2"])
    client = client_of(authority)
    client.set_alpn_protocols(["h2"])
    assert [handshake(server, client, name).protocol for name in ("gate.example", "kafka.example")] == [
        "h2"
    ] * 2


def test_further_certificates_are_checked_like_the_first(authority: Authority, gate: dict[str, str]) -> None:
    other = named(authority, "kafka.example")
    tls = ClientTls.model_validate(
        {**gate, "certificates": [other, {**other, "names": ["b"], "key": gate["key"]}]}
    )
    [error] = problems(tls)
    assert error.key == "certificates.1.key"
    with pytest.raises(TlsFileError, match=r"tls: certificates\.1\.key"):
        context_for_clients(tls)
    assert set(files(tls)) == {gate["cert"], gate["key"], other["cert"], other["key"]}
    assert [expiry.key for expiry in expiries(tls)] == ["cert", "certificates.0.cert", "certificates.1.cert"]


@pytest.mark.parametrize(
    "name", ["", "127.0.0.1", "::1", "*", "a.*.b", "*.*.b", "a..b", "a b", "ü.example", "x" * 64]
)
def test_names_that_no_client_can_ask_for_are_refused(gate: dict[str, str], name: str) -> None:
    entry = {**gate, "names": [name]}
    told = refusal(ClientTls, **gate, certificates=[entry])
    assert repr(name) in told
    assert "*.example" in told


def test_a_name_has_one_certificate(gate: dict[str, str]) -> None:
    entries = [{**gate, "names": ["a.example"]}, {**gate, "names": ["b.example", "A.example"]}]
    assert "'a.example' has two certificates" in refusal(ClientTls, **gate, certificates=entries)


def test_versions_below_the_lowest_are_refused_on_both_sides(
    authority: Authority, gate: dict[str, str]
) -> None:
    assert handshake(context_for_clients(client_tls(gate)), client_of(authority), "gate.example").version == (
        "TLSv1.3"
    )
    old = client_of(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(context_for_clients(client_tls(gate)), old, "gate.example").version == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        handshake(context_for_clients(client_tls(gate, min_version="TLSv1.3")), old, "gate.example")
    old_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old_server.load_cert_chain(gate["cert"], gate["key"])
    old_server.maximum_version = ssl.TLSVersion.TLSv1_2
    by_default = context_for_broker(BrokerTls(ca=authority.ca))
    assert handshake(old_server, by_default, "gate.example").version == "TLSv1.2"
    modern = context_for_broker(BrokerTls(ca=authority.ca, min_version="TLSv1.3"))
    with pytest.raises(ssl.SSLError):
        handshake(old_server, modern, "gate.example")


def test_the_lowest_version_holds_whatever_the_build_of_python_says(gate: dict[str, str]) -> None:
    for context in (context_for_clients(client_tls(gate)), context_for_broker(BrokerTls())):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_only_the_suites_of_the_list_are_agreed_on(authority: Authority, gate: dict[str, str]) -> None:
    one, other = client_of(authority), client_of(authority)
    for client, ciphers in ((one, AES128), (other, AES256)):
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        client.set_ciphers(ciphers)
    server = context_for_clients(client_tls(gate, ciphers=(AES128,)))
    assert handshake(server, one, "gate.example").cipher == AES128
    with pytest.raises(ssl.SSLError):
        handshake(server, other, "gate.example")
    modern = client_of(authority)
    assert handshake(server, modern, "gate.example").version == "TLSv1.3"
    to_broker = context_for_broker(BrokerTls(ca=authority.ca, ciphers=(AES256,)))
    assert [cipher["name"] for cipher in to_broker.get_ciphers() if cipher["protocol"] == "TLSv1.2"] == [
        AES256
    ]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("ECDHE-ECDSA-AES128-GCM-SHA265", f"did you mean {AES128!r}?"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", f"did you mean {AES128!r}?"),
        ("TLS_AES_128_GCM_SHA256", "remove it: it is always enabled"),
        ("HIGH", "write a name that 'openssl ciphers' prints"),
        ("NULL-SHA256", ""),
        ("ADH-AES128-SHA", ""),
        ("PSK-AES128-CBC-SHA", ""),
        ("RC4-SHA", ""),
        (f"{AES128}:@SECLEVEL=0", ""),
        ("", ""),
    ],
)
def test_suites_that_are_unknown_or_not_safe_are_refused(name: str, remedy: str) -> None:
    told = refusal(BrokerTls, ciphers=[name])
    assert repr(name) in told
    assert remedy in told


def test_every_known_suite_can_be_set() -> None:
    assert {AES128, AES256, "ECDHE-RSA-CHACHA20-POLY1305", "AES128-SHA"} <= known_ciphers()
    context = context_for_broker(BrokerTls(ciphers=tuple(sorted(known_ciphers()))))
    assert known_ciphers() <= {cipher["name"] for cipher in context.get_ciphers()}


def test_cipher_suites_without_effect_are_refused() -> None:
    assert "which 'min_version' excludes" in refusal(BrokerTls, ciphers=[AES128], min_version="TLSv1.3")


def test_defaults() -> None:
    tls = Tls()
    day = 24 * 3600 * 1000
    assert tls.warn_before == (30 * day, 7 * day)
    assert Tls.model_validate({"warn_before": ["2d"]}).warn_before == (2 * day,)
