"""The admin endpoint with TLS: tokens, client certificates, commands of the own user, renewed files."""

import hashlib
import json
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.gateway.certificates import Authority
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S, until

from sluicegate.cli import main
from sluicegate.runtime.plugins import CHOICE

DIGEST = hashlib.sha256(b"token").hexdigest()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def gateway(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setenv(CHOICE, "")
    cert, key = (shutil.copy(path, tmp_path) for path in authority.issue("gate", "gateway.example"))
    callers = (
        f"{{name: ci, sha256: {DIGEST}, scope: write}}, {{name: ann, certificate: CN=ann, scope: write}}, "
        "{name: viewer, certificate: CN=viewer}, "
        "{name: prometheus, certificate: CN=prometheus, scope: metrics}"
    )
    tls = f"{{cert: {cert}, key: {key}, client_ca: {authority.ca}}}"
    with echoing() as upstream:
        gateway = Gateway(tmp_path, upstream, closed_port())
        text = gateway.path.read_text()
        admin = f"admin: {{port: 0, tls: {tls}, callers: [{callers}]}}"
        gateway.path.write_text(text.replace("admin: {port: 0}", admin))
        gateway.start()
        yield gateway
        gateway.stop()


class Client:
    """A client of the admin endpoint.

    :param gateway: which it asks.
    :param authority: which it trusts.
    :param identity: files of its certificate; none if None.
    """

    def __init__(
        self, gateway: Gateway, authority: Authority, identity: tuple[str, str] | None = None
    ) -> None:
        self._gateway = gateway
        self._context = ssl.create_default_context(cafile=authority.ca)
        self._context.check_hostname = False
        if identity is not None:
            self._context.load_cert_chain(*identity)

    def ask(self, path: str, *, method: str = "GET", body: object = None, token: str = "") -> tuple[int, str]:
        """Status and text of an answer."""
        assert self._gateway.admin.startswith("https://")
        headers = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._gateway.admin}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LONG_S, context=self._context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def change(reason: str) -> dict[str, object]:
    edit = {"level": "broker", "field": "max_message_size", "value": 1_000}
    return {"edits": [edit], "reason": reason}


def sluicegate(gateway: Gateway, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-c", str(gateway.path)], catch_exceptions=False)


def test_callers_are_known_by_the_subject_of_their_certificate(
    gateway: Gateway, authority: Authority
) -> None:
    ann, viewer, other = (
        Client(gateway, authority, authority.issue(name, name)) for name in ("ann", "viewer", "other")
    )
    status, text = ann.ask("/api/v1/policies", method="PATCH", body=change("by certificate"))
    assert status == 200, text
    [revision] = json.loads(ann.ask("/api/v1/policies/history")[1])["revisions"]
    assert (revision["actor"], revision["reason"]) == ("ann", "by certificate")

    assert viewer.ask("/api/v1/policies")[0] == 200
    status, text = viewer.ask("/api/v1/policies", method="PATCH", body=change("no"))
    assert (status, json.loads(text)["type"]) == (403, "/problems/read-only")
    plan = viewer.ask("/api/v1/policies?dry_run=true", method="PATCH", body=change("no"))
    assert plan[0] == 200

    status, text = other.ask("/api/v1/policies")
    problem = json.loads(text)
    assert (status, problem["type"]) == (403, "/problems/unknown-certificate")
    assert "CN=other" in problem["detail"]
    assert "admin.callers" in problem["remedy"]
    assert other.ask("/api/v1/policies", token="token")[0] == 200, "a token counts first"


def test_without_a_certificate_tokens_and_this_host_are_answered(
    gateway: Gateway, authority: Authority
) -> None:
    nobody = Client(gateway, authority)
    assert nobody.ask("/api/v1/policies")[0] == 200
    assert nobody.ask("/api/v1/policies", method="PATCH", body=change("no"))[0] == 403
    assert nobody.ask("/api/v1/policies", method="PATCH", body=change("yes"), token="token")[0] == 200
    assert nobody.ask("/api/v1/policies", token="wrong")[0] == 401
    assert nobody.ask("/livez") == (200, "ok\n")


def test_a_certificate_of_another_authority_ends_the_handshake(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger", "another authority").issue("ann", "ann")
    with pytest.raises((ssl.SSLError, OSError)):
        Client(gateway, authority, stranger).ask("/api/v1/policies")


def test_metrics_are_for_certificates_that_may_see_them(gateway: Gateway, authority: Authority) -> None:
    prometheus = Client(gateway, authority, authority.issue("prometheus", "prometheus"))
    assert prometheus.ask("/metrics")[0] == 200
    assert prometheus.ask("/api/v1/policies")[0] == 403
    assert Client(gateway, authority).ask("/metrics")[0] == 401
    other = Client(gateway, authority, authority.issue("other", "other"))
    assert other.ask("/metrics")[0] == 403


def test_commands_of_the_own_user_go_on_and_trust_this_certificate_alone(
    gateway: Gateway, authority: Authority
) -> None:
    assert "running gateway (process" in sluicegate(gateway, "policies", "get").stdout
    assert "in force in the running gateway" in sluicegate(gateway, "explain", "t").stdout
    done = sluicegate(gateway, "policies", "set", "broker", "max_message_size=2000")
    assert (done.exit_code, done.stderr) == (0, "")

    note = json.loads((gateway.directory / "running.json").read_text())
    assert note["certificate"] == str(gateway.directory / "gate.pem")
    other, _ = authority.issue("other", "gateway.example")
    (gateway.directory / "running.json").write_text(json.dumps({**note, "certificate": other}))
    refused = sluicegate(gateway, "policies", "get")
    assert refused.exit_code == 1
    assert f"it shows another certificate than {other}" in refused.stderr


def test_a_renewed_certificate_is_shown_and_trusted_without_a_restart(
    gateway: Gateway, authority: Authority
) -> None:
    for path in authority.issue("next", "gateway.example"):
        kind = Path(path).suffix
        shutil.copy(path, gateway.directory / f"gate{kind}")
    until(lambda: sluicegate(gateway, "policies", "get").exit_code == 0)
    until(lambda: "TLS files read again" in gateway.errors.read_text())
    assert sluicegate(gateway, "policies", "get").exit_code == 0
