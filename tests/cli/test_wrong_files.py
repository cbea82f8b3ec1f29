"""What `check` and `run` say about files with mistakes that people make."""

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.wrong_files import BROKER, SECOND, TOPIC, WRONG, Wrong, of_tls
from tests.gateway.certificates import Authority
from tests.waiting import LONG_S

from sluicegate.cli import main

Given = Callable[[Wrong], None]
_DAYS = datetime.timedelta(days=9)
EACH = pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates and keys, good and bad."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory)
    for name in ("good", "other"):
        authority.issue(name, "localhost")
    authority.issue("old", "localhost", shifted_by=-_DAYS)
    authority.issue("early", "localhost", shifted_by=_DAYS)
    authority.issue("locked", "localhost", passphrase="secret")
    (directory / "empty.pem").touch()
    good = (directory / "good.pem").read_text().splitlines()
    (directory / "broken.pem").write_text("\n".join([good[0], "AAAA", good[-1]]))
    return directory


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Path) -> Given:
    """Put a wrong file into the working directory, as `gateway.yaml`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "danube,kafka,pulsar")

    def write(wrong: Wrong) -> None:
        data = wrong.data.replace(b"$TLS", os.fsencode(certificates))
        Path("gateway.yaml").write_bytes(data)
        for name, value in wrong.environ.items():
            monkeypatch.setenv(name, value)

    return write


def sluicegate(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@EACH
def test_check_names_file_line_value_and_remedy(given: Given, wrong: Wrong) -> None:
    given(wrong)
    result = sluicegate("check", "--json", "gateway.yaml")
    told = json.loads(result.stdout)
    findings = [found for found in told["findings"] if wrong.value in found["message"]]
    if wrong.is_alone:
        assert findings == told["findings"]
    [found] = findings
    assert (found["line"], found["severity"]) == (wrong.line, wrong.severity)
    assert wrong.remedy in found["remedy"]
    assert found["file"] == next(iter(wrong.environ), "gateway.yaml")
    assert found["column"] > 0
    assert told["ok"] is (wrong.severity == "warning")
    assert result.exit_code == (0 if told["ok"] else 1)


@EACH
def test_every_finding_has_a_remedy_and_a_place(given: Given, wrong: Wrong) -> None:
    given(wrong)
    findings = json.loads(sluicegate("check", "--json", "gateway.yaml").stdout)["findings"]
    assert findings
    for found in findings:
        assert found["line"] > 0
        assert found["remedy"]
        assert found["severity"] in ("error", "warning")


MET = [wrong for wrong in WRONG if wrong.severity == "error" and not wrong.run_starts]


@pytest.mark.parametrize("wrong", MET, ids=lambda wrong: wrong.name)
def test_run_refuses_what_check_refuses_in_the_same_words(given: Given, wrong: Wrong) -> None:
    given(wrong)
    checked = sluicegate("check", "gateway.yaml")
    run = sluicegate("run", "-c", "gateway.yaml")
    assert run.exit_code == 1
    assert run.stderr == checked.stderr


@pytest.mark.parametrize("command", [("check",), ("run", "-c")], ids=["check", "run"])
def test_no_passphrase_is_asked_for(given: Given, command: tuple[str, ...]) -> None:
    given(next(wrong for wrong in WRONG if wrong.name == "an encrypted key"))
    # On a terminal of its own, where OpenSSL would ask and wait.
    arguments = [str(Path(sys.executable).with_name("sluicegate")), *command, "gateway.yaml"]
    program = f"import os, pty; raise SystemExit(os.waitstatus_to_exitcode(pty.spawn({arguments!r})))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    assert done.returncode == 1
    assert "is encrypted" in done.stdout
    assert "pass phrase" not in done.stdout.lower()


def test_a_file_that_is_a_directory_has_no_line_but_a_remedy(given: Given) -> None:
    Path("gateway.yaml").mkdir()
    told = json.loads(sluicegate("check", "--json", "gateway.yaml").stdout)
    assert told["findings"] == [
        {
            "severity": "error",
            "file": "gateway.yaml",
            "line": 0,
            "column": 0,
            "path": "",
            "message": "cannot read 'gateway.yaml': Is a directory",
            "remedy": "check the path and its permissions",
        }
    ]


UNREADABLE = [
    ("gateway.yaml", "cannot read 'gateway.yaml': Permission denied"),
    ("key.pem", "cannot read 'key.pem': Permission denied"),
    (".", "is not writable"),
]


@pytest.fixture(scope="module")
def as_a_user() -> list[str]:
    """What to write before a command so that permissions hold for it, for root too."""
    if os.geteuid() != 0:
        return []
    rights = "-dac_override,-dac_read_search"
    prefix = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("root may read and write everything, and setpriv cannot take that right away")
    return prefix


@pytest.mark.parametrize(("path", "message"), UNREADABLE)
def test_permissions_are_checked(
    given: Given, certificates: Path, path: str, message: str, as_a_user: list[str]
) -> None:
    given(Wrong("", of_tls("", "good.pem", "", 0, "", "").data.replace(b"$TLS/\n", b"key.pem\n"), 0, "", ""))
    Path("key.pem").write_bytes((certificates / "good.key").read_bytes())
    Path(path).chmod(0o500 if path == "." else 0)
    command = [*as_a_user, str(Path(sys.executable).with_name("sluicegate"))]
    try:
        for arguments in (("check", "gateway.yaml"), ("run", "-c", "gateway.yaml")):
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=LONG_S)
            assert done.returncode == 1
            assert message in done.stderr
    finally:
        Path(path).chmod(0o700)


@pytest.mark.parametrize(
    ("closed", "asked"),
    [
        ("state", ["orders"]),
        ("state", ["--client", "app"]),
        ("state/refusals.db", ["[sluicegate k3x9qa-1f]"]),
    ],
)
def test_explain_tells_another_user_than_the_gateways_what_to_do(
    given: Given, as_a_user: list[str], closed: str, asked: list[str]
) -> None:
    given(Wrong("", BROKER + "state_dir: state\n", 0, "", ""))
    Path("state").mkdir()
    Path("state/refusals.db").touch()
    Path(closed).chmod(0)
    command = [*as_a_user, str(Path(sys.executable).with_name("sluicegate")), "explain", *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S)
    Path("state").chmod(0o700)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Permission denied" in done.stderr
    assert "as the user of the gateway" in done.stderr


def test_another_machine_checks_without_the_files(given: Given) -> None:
    given(next(wrong for wrong in WRONG if wrong.name == "no certificate file"))
    assert sluicegate("check", "--no-files", "gateway.yaml").exit_code == 0
    assert sluicegate("check", "gateway.yaml").exit_code == 1


def test_a_good_file_has_no_findings_as_json(given: Given) -> None:
    given(Wrong("", BROKER, 0, "", ""))
    told = json.loads(sluicegate("check", "--json", "gateway.yaml").stdout)
    assert told == {"file": "gateway.yaml", "ok": True, "findings": []}


def test_mistakes_hide_no_others(given: Given) -> None:
    broken = "  - {name: broken, system: pulsar, bootstrap: [a], listen: {port: 19092}}\n"
    taken = SECOND % 29092 + "    max_hold: 1 sec\n    tls: {broker: {ca: none.pem}}\n"
    rest = TOPIC % "orders/eu" + "  broker: {max_publish_rate: -1}\n"
    given(Wrong("", BROKER + broken + taken + rest, 0, "", ""))
    told = json.loads(sluicegate("check", "--json", "gateway.yaml").stdout)
    assert [found["path"] for found in told["findings"]] == [
        "brokers.1.bootstrap.0",
        "brokers.1.listen.port",
        "brokers.2.max_hold",
        "brokers.2.tls.broker.ca",
        "policies.topics.0.name",
        "policies.broker.max_publish_rate",
    ]


SECRETS = [
    "    identity: {username: 5, password: hunter2}\n",
    "    identity: {username: a, pasword: hunter2}\n",
    "    identity:\n      username: a\n      password: [hunter2]\n",
    "    identity: {username: a, password: 'hunter2'\n",
    "    storage: {source: path, token: hunter2}\n",
    "    identity:\n      username: a\n      pswd: hunter2\n",
    "    identity: {password: hunter2, password: b}\n",
    "    identity:\n      password: hunter2: b\n",
    "    max_hold: {token: hunter2}\n",
    "    bootstrap: 'gate:hunter2@kafka:9092'\n",
]
COMMANDS = [
    ("check", "gateway.yaml"),
    ("check", "--json", "gateway.yaml"),
    ("run", "-c", "gateway.yaml"),
    ("explain", "-c", "gateway.yaml", "--topic", "orders"),
    ("schema", "-c", "gateway.yaml"),
    ("plugins", "list", "-c", "gateway.yaml"),
    ("topics", "get-delayed-delivery", "-c", "gateway.yaml", "persistent://public/default/orders"),
    ("compare", "run", "gateway.yaml"),
    ("report", "replay", "--policy", "gateway.yaml", "."),
]


@pytest.mark.parametrize("entry", SECRETS)
def test_secrets_are_not_shown(given: Given, entry: str) -> None:
    given(Wrong("", BROKER + entry, 0, "", ""))
    for command in COMMANDS:
        result = sluicegate(*command)
        assert result.exit_code == 1 or command[0] not in ("check", "run")
        assert "hunter2" not in result.output
        assert "hunter2" not in repr(result.exception)


def test_the_login_of_a_store_is_not_shown(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sluicegate.runtime.logs.set_up", lambda *_, **__: None
    )  # `run` would change other tests' log
    given(Wrong("", BROKER + "store: postgres://gate:hunter2@db/policies?key=hunter2\n", 0, "", ""))
    for command in COMMANDS:
        result = sluicegate(*command)
        assert "hunter2" not in result.output
        assert "hunter2" not in repr(result.exception)
    assert (
        "no plugin opens the store 'postgres://***@db/policies?***'"
        in sluicegate("check", "gateway.yaml").stderr
    )


@pytest.mark.parametrize("login", ["u:hunter2@127.0.0.1:1", "u:hun/hunter2@a", ":hunter2@a"])
def test_the_login_of_an_etcd_is_not_shown(given: Given, login: str) -> None:
    given(Wrong("", f"{BROKER}store: etcd://{login}\n", 0, "", ""))
    result = sluicegate("check", "gateway.yaml")
    assert result.exit_code == 1
    assert "***@" in result.stderr
    assert "hunter2" not in result.output + repr(result.exception)


@pytest.mark.parametrize("value", ["*hunter2", "[hunter2", "hunter2: hunter2: a", "[hunter2]"])
def test_secrets_of_the_environment_are_not_shown(given: Given, value: str) -> None:
    environ = {
        "SLUICEGATE__BROKERS__0__IDENTITY__PASSWORD": value,
        "SLUICEGATE__BROKERS__0__IDENTITY__USERNAME": "a",
    }
    given(Wrong("", BROKER, 0, "", "", environ=environ))
    result = sluicegate("check", "gateway.yaml")
    assert result.exit_code == 1
    assert "IDENTITY__PASSWORD" in result.stderr
    assert "hunter2" not in result.output


def test_there_are_as_many_kinds_of_mistakes_as_promised() -> None:
    assert len({wrong.name for wrong in WRONG}) == len(WRONG) >= 40
