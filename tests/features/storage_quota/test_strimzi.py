"""Policy files out of the properties of Strimzi's plug-in, and every file that cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.cli import main
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.tree import MAX_BYTES, parse
from sluicegate.features.storage_quota.properties import parse_properties
from sluicegate.features.storage_quota.strimzi import PREFIX, import_strimzi

HERE = Path(__file__).parent / "strimzi"
EXAMPLE = Path(__file__).parents[3] / "examples" / "strimzi.properties"
FILES = {"example": EXAMPLE, "proposal": HERE / "proposal.properties", "off": HERE / "off.properties"}
PER_VOLUME = "storage.per.volume.limit.min.available"

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")

    def run_it(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(each) for each in arguments], catch_exceptions=False)

    return run_it


@pytest.mark.seed("S4-050", "S4-051", "S4-052", "S4-054", "S4-055")
@pytest.mark.parametrize("name", FILES)
def test_a_file_becomes_a_policy_file_that_is_good(run: Run, name: str) -> None:
    done = run("import", "strimzi", FILES[name], "-o", "gateway.yaml")
    assert done.exit_code == 0
    assert Path("gateway.yaml").read_text() == (HERE / f"{name}.yaml").read_text()
    checked = run("check", "gateway.yaml")
    assert (checked.exit_code, checked.stderr) == (0, "")


@pytest.mark.seed("S4-054")
def test_what_is_taken_over_and_what_is_not_is_counted(run: Run) -> None:
    done = run("import", "strimzi", EXAMPLE)
    assert done.stdout == (HERE / "example.yaml").read_text()
    assert done.stderr == "6 converted, 2 not\n"
    assert "changeit" not in done.stdout
    assert run("import", "strimzi", FILES["off"]).stderr == "0 converted, 2 not\n"
    assert run("import", "strimzi", EXAMPLE, "-o", "g.yaml").stderr == "g.yaml: 6 converted, 2 not\n"


REFUSED = {
    "text for bytes": (
        f"{PER_VOLUME}.bytes=5GiB",
        "'5GiB' is not a whole number",
        "write a number such as 5368709120",
    ),
    "text for a rate": ("produce=fast", "'fast' is not a number of 0 or more", "write a number such as"),
    "NaN": ("produce=NaN", "'NaN' is not a number", ""),
    "negative": (f"{PER_VOLUME}.bytes=-1", "'-1' is not a whole number", ""),
    "too many bytes": (f"{PER_VOLUME}.bytes=9999999999999999999", "is too large", "write at most 1048576GiB"),
    "percent": (
        f"{PER_VOLUME}.ratio=5",
        "'5' is not a share of the capacity",
        "write a number from 0.0 to 1.0",
    ),
    "both": (
        f"{PER_VOLUME}.bytes=5\n{PREFIX}{PER_VOLUME}.ratio=0.1",
        f"{PREFIX}{PER_VOLUME}.bytes is set too",
        "remove one of them",
    ),
    "the same limit": (
        f"{PER_VOLUME}.bytes=5\n{PREFIX}storage.hard.min-free-bytes=6",
        "another property sets the same limit, storage_hard_min_free_bytes",
        "remove one of them",
    ),
    "inverted": (
        "storage.hard=5\n" + PREFIX + "storage.soft=6",
        "the soft limit 6 would be reached after",
        "smaller",
    ),
    "inverted share": (
        "storage.hard.min-free-percent=0.2\n" + PREFIX + "storage.soft.min-free-percent=0.1",
        "the soft limit 0.1 would be reached after the hard one 0.2",
        "make it larger",
    ),
    "fallback": ("throttle.factor.fallback=2", "'2' is not a factor", "0.0 to 1.0"),
    "duration": ("throttle.factor.validity.duration=5m", "'5m' is not a duration", "PT5M"),
    "no duration": ("throttle.factor.validity.duration=PT", "'PT' is not a duration", "PT5M"),
    "interval": ("storage.check-interval=1e3", "'1e3' is not a whole number", ""),
    "long interval": ("storage.check-interval=99999999999", "seconds are too long", "at most 31622400"),
    "address": ("kafka.admin.bootstrap.servers=broker1", "'broker1' is not an address", "write host:port"),
    "port 0": ("kafka.admin.bootstrap.servers=a:9092,b:0", "'b:0' is not an address", "write host:port"),
    "high port": ("kafka.admin.bootstrap.servers=b:99999", "'b:99999' is not an address", "write host:port"),
    "no address": ("kafka.admin.bootstrap.servers=", "the address is missing", "write host:port"),
    "half a character": (r"excluded.principal.name.list=\ud83d", r"an invalid \u escape", ""),
    "escape": (r"excluded.principal.name.list=\u12", r"an invalid \u escape", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_cannot_be_read_are_reported_with_their_place_and_remedy(run: Run, name: str) -> None:
    text, problem, remedy = REFUSED[name]
    Path("server.properties").write_text(f"broker.id=1\n{PREFIX}{text}\n")
    done = run("import", "strimzi", "server.properties", "-o", "out.yaml")
    assert (done.exit_code, done.stdout, Path("out.yaml").exists()) == (2, "", False)
    line = 2 + text.count("\n")
    assert done.stderr.startswith("error[config]: ")
    assert f"\n  --> server.properties:{line}:1  ({PREFIX}" in done.stderr
    assert problem in done.stderr
    assert remedy in done.stderr
    assert done.stderr.endswith("\nserver.properties: nothing written\n")


def test_secrets_of_a_file_are_not_shown() -> None:
    secret = f"{PREFIX}pasword=hunter2\n{PREFIX}url=http://a:hunter2@b/?c=hunter2\n{PREFIX}produce=5\n"
    made = import_strimzi(f"{secret}ssl.key.password=hunter2\n", "server.properties")
    assert "hunter2" not in made.text
    assert f"{PREFIX}pasword (line 1)" in made.text
    with pytest.raises(ConfigErrors) as refused:
        import_strimzi(f"{secret}ssl.key.password=hunter2\\u00\n", "server.properties")
    assert "hunter2" not in refused.value.render()


def test_every_mistake_is_reported_in_one_pass() -> None:
    with pytest.raises(ConfigErrors) as refused:
        import_strimzi(f"{PREFIX}produce=x\n{PREFIX}fetch=y\n", "server.properties")
    assert [error.line for error in refused.value.errors] == [1, 2]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot read 'server.properties': No such file or directory"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"", "no property of the quota plug-in in 'server.properties'"),
        (b"brokers:\n  - name: main\n", "its properties start with 'client.quota.callback.static.'"),
        (b"#" * (MAX_BYTES + 1), "is larger than"),
    ],
)
def test_files_that_are_no_properties_of_the_plug_in(run: Run, content: bytes | None, problem: str) -> None:
    if content is not None:
        Path("server.properties").write_bytes(content)
    done = run("import", "strimzi", "server.properties")
    assert (done.exit_code, done.stdout) == (2, "")
    assert problem in done.stderr


def test_a_file_that_exists_is_not_written_over(run: Run) -> None:
    Path("gateway.yaml").write_text("mine")
    done = run("import", "strimzi", EXAMPLE, "-o", "gateway.yaml")
    assert (done.exit_code, Path("gateway.yaml").read_text()) == (2, "mine")
    assert "cannot write 'gateway.yaml': File exists" in done.stderr
    assert run("import", "strimzi", EXAMPLE, "-o", "no/where.yaml").exit_code == 2


@pytest.mark.seed("S4-018")
@pytest.mark.parametrize(
    ("names", "principals"),
    [
        ("User:CN=a,O=b;User:c", '"User:CN=a,O=b", "User:c"'),
        ("User:a,User:b", '"User:a", "User:b"'),
        ("a,b", '"User:a", "User:b"'),
        ("User:CN=a,O=b", '"User:CN=a,O=b"'),
        (r"\ud83d\ude00", '"User:😀"'),
        (r"User:a\"", r'"User:a\""'),
    ],
)
def test_principals_are_separated_as_each_version_does_it(names: str, principals: str) -> None:
    text = import_strimzi(f"{PREFIX}excluded.principal.name.list={names}", "f").text
    assert f"    exempt: {{ principals: [{principals}] }}\n" in text


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        ("1e6", "publish_quota_bytes: 1MB/s"),
        ("1000.9", "publish_quota_bytes: 1kB/s"),
        ("1048576.0d", "publish_quota_bytes: 1MiB/s"),
        ("0", "it blocks producers, but 0 means unlimited here"),
        ("1e12", "the maximum of a quota here"),
        ("Infinity", "unlimited, which is the default"),
    ],
)
def test_rates_as_java_reads_them(rate: str, told: str) -> None:
    assert told in import_strimzi(f"{PREFIX}produce={rate}", "f").text


def pairs(text: str) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in parse_properties(text, "f", [])]


def test_properties_as_java_reads_them() -> None:
    assert pairs(
        "a=1\n b : 2\nc 3\rd\r\n#e=5\n!f\n\ng\\ h=\\\n   i\\\n\tj\nk=\\u0041\\tb\\q\nl==\na=9\nm=n\\"
    ) == [
        ("b", "2"),
        ("c", "3"),
        ("d", ""),
        ("g h", "ij"),
        ("k", "A\tbq"),
        ("l", "="),
        ("a", "9"),
        ("m", "n"),
    ]


@given(st.text(alphabet=st.sampled_from("ab=: \\u0#!\n\r\t'\"{}%é\x1b"), max_size=40))
def test_whatever_the_value_the_file_is_one_that_yaml_reads(text: str) -> None:
    try:
        made = import_strimzi(f"{PREFIX}excluded.principal.name.list={text}\n{PREFIX}x={text}", "f")
    except ConfigErrors:
        return
    errors: list[object] = []
    parse(made.text, "gateway.yaml", errors)  # type: ignore[arg-type]
    assert errors == []
    assert "\x1b" not in made.text
