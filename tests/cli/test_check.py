"""`sluicegate check` and `sluicegate schema`."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from sluicegate.cli import findings
from sluicegate.config import load
from sluicegate.config.errors import Finding
from sluicegate.config.tree import Node, parse
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies, Level, PolicySet, PolicyValue, Scope, TopicName
from sluicegate.runtime.plugins import CHOICE

Run = Callable[..., Result]

BROKERS = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:9092"]
    listen: {port: 19092}
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "gateway.yaml"


def test_a_good_file_is_summed_up_in_a_line(run_in: Run) -> None:
    result = run_in(BROKERS + "policies: {broker: {max_publish_rate: 5}}\n", "check", "gateway.yaml")
    assert result.exit_code == 0
    assert result.stdout == "gateway.yaml: ok, broker main (kafka); 1 policy setting in 1 place\n"
    assert result.stderr == ""


def test_an_entry_for_clients_alone_is_good_and_a_note_says_that_a_gateway_needs_more(run_in: Run) -> None:
    text = BROKERS.replace("    listen: {port: 19092}\n", "")
    result = run_in(text, "check", "gateway.yaml")
    assert result.exit_code == 0
    assert result.stderr.startswith("note[config]: broker 'main' has no 'listen'")
    refused = run_in(None, "run", "-c", "gateway.yaml")
    assert refused.exit_code == 1
    assert "error[config]: broker 'main' has no 'listen'" in refused.stderr
    assert "--> gateway.yaml:2:" in refused.stderr
    assert "add 'listen: {host: 0.0.0.0, port: 19092}'" in refused.stderr


def test_the_example_is_good(run_in: Run) -> None:
    result = run_in(None, "check", str(EXAMPLE))
    assert (result.exit_code, result.stderr) == (0, "")


def test_many_topics_cost_one_parse_and_one_resolver(run_in: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    resolvers: list[PolicySet] = []
    resolved: list[TopicName] = []

    class CountedResolver(Resolver):
        def __init__(self, policies: PolicySet, defaults: Mapping[str, PolicyValue]) -> None:
            resolvers.append(policies)
            super().__init__(policies, defaults)

        def resolve(
            self, topic: TopicName, level: Level = Level.TOPIC, scopes: Collection[Scope] = ()
        ) -> EffectivePolicies:
            resolved.append(topic)
            return super().resolve(topic, level, scopes)

    def counted(text: str, name: str, errors: list[Finding]) -> Node:
        parsed.append(name)
        return parse(text, name, errors)

    monkeypatch.setattr(load, "parse", counted)
    monkeypatch.setattr(findings, "Resolver", CountedResolver)
    topics = "".join(f"    - {{name: t.{n}, max_publish_rate: {n}}}\n" for n in range(1, 1_000))

    result = run_in(
        f"{BROKERS}policies:\n  broker: {{ceiling: {{max_publish_rate: 998}}}}\n  topics:\n{topics}",
        *("check", "gateway.yaml"),
    )

    assert result.stdout.endswith("; 1000 policy settings in 1000 places\n")
    assert "max_publish_rate 999/s is above the broker ceiling" in result.stderr
    assert (len(parsed), len(resolvers), len(resolved)) == (1, 1, 1)


@pytest.mark.seed("S1-013")
def test_all_mistakes_are_printed_and_the_exit_code_is_1(run_in: Run) -> None:
    result = run_in(
        BROKERS + "policies:\n  broker:\n    max_publish_rate: -1\n    max_publish_rte: 5\n",
        "check",
        "gateway.yaml",
    )
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "error[config]: -1 is negative\n"
        "  --> gateway.yaml:8:23  (policies.broker.max_publish_rate)\n"
        "8|     max_publish_rate: -1\n"
        " |                       ^^ write 0 for unlimited, or remove the field to inherit\n"
        "\n"
        "error[config]: unknown key 'max_publish_rte'\n"
        "  --> gateway.yaml:9:5  (policies.broker.max_publish_rte)\n"
        "9|     max_publish_rte: 5\n"
        " |     ^^^^^^^^^^^^^^^ did you mean 'max_publish_rate'?\n"
        "\n"
        "gateway.yaml: 2 errors, nothing applied\n"
    )


def test_the_environment_is_checked_too(run_in: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE__ADMIN__PRT", "1")
    result = run_in(BROKERS, "check", "gateway.yaml")
    assert result.exit_code == 1
    assert "  --> SLUICEGATE__ADMIN__PRT:1:1  (admin.prt)" in result.stderr


def test_a_missing_file_is_a_mistake_not_a_crash(run_in: Run) -> None:
    result = run_in(None, "check", "nowhere.yaml")
    assert result.exit_code == 1
    assert "cannot read 'nowhere.yaml': No such file or directory" in result.stderr


def test_a_policy_that_the_broker_cannot_apply_is_warned_of(run_in: Run) -> None:
    text = BROKERS + "policies:\n  broker:\n    max_unacked_messages_per_consumer: 5\n"
    result = run_in(text, "check", "gateway.yaml")
    assert result.exit_code == 0
    assert result.stderr == (
        "warning[config]: 'max_unacked_messages_per_consumer' is not applicable to kafka and has no effect "
        "on broker 'main'\n"
        "  --> gateway.yaml:8:40  (policies.broker.max_unacked_messages_per_consumer)\n"
        "8|     max_unacked_messages_per_consumer: 5\n"
        " |                                        ^ remove it, unless it is meant for another broker of "
        "this file\n"
    )


def test_a_plugin_module_that_is_missing_is_named(run_in: Run) -> None:
    result = run_in(BROKERS + "plugins: [no.such.module]\n", "check", "gateway.yaml")
    assert result.exit_code == 1
    assert "no.such.module" in result.stderr


ACME = """\
from pydantic import Field
from sluicegate import hookimpl
from sluicegate.config import Count, PolicyModel


class AcmePolicies(PolicyModel):
    max_acme: Count | None = Field(default=None, description="Things.")


@hookimpl
def sluicegate_policy_model():
    return AcmePolicies
"""


def test_fields_of_plugin_modules_are_known_to_check_and_schema(
    run_in: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_check_policies.py").write_text(ACME)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = BROKERS + "plugins: [acme_check_policies]\npolicies: {broker: {max_acme: 5}}\n"
    assert run_in(text, "check", "gateway.yaml").exit_code == 0
    schema = json.loads(run_in(None, "schema", "-c", "gateway.yaml").stdout)
    assert "max_acme" in schema["$defs"]["PolicyLevel"]["properties"]
    assert "max_acme" not in json.loads(run_in(None, "schema").stdout)["$defs"]["PolicyLevel"]["properties"]


def test_the_schema_accepts_the_example(run_in: Run) -> None:
    result = run_in(None, "schema")
    assert result.exit_code == 0
    jsonschema.validate(parse(EXAMPLE.read_text(), "example", []).plain(), json.loads(result.stdout))


SIZES = (
    "policies:\n  broker:\n    max_message_size: 1MiB\n  topics:\n    - {name: t, max_message_size: 2MiB}\n"
)
COUNTS_WHOLE = (
    "'max_message_size' counts a compressed batch as one message of its compressed size on broker 'main'"
)


def test_the_meaning_of_a_size_limit_for_compressed_batches_is_reported_once(run_in: Run) -> None:
    result = run_in(BROKERS + SIZES, "check", "gateway.yaml")
    assert result.exit_code == 0
    assert result.stderr.count(COUNTS_WHOLE) == 1
    assert "set 'inspect: true' to check the messages in it, or 'inspect: false'" in result.stderr


@pytest.mark.parametrize("inspect", ["true", "false"])
def test_a_file_that_mentions_inspecting_needs_no_hint(run_in: Run, inspect: str) -> None:
    text = BROKERS + SIZES.replace("broker:\n", f"broker:\n    inspect: {inspect}\n")
    result = run_in(text, "check", "gateway.yaml")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "    exempt: {principals: [anna, 'User:eva', ANONYMOUS]}\n",
            ["brokers.0.exempt.principals.0", "write 'User:anna', as Kafka names the principal of a client"],
        ),
        (
            "    quotas: [{principal: 'User:eva', messages: 1}, {principal: anna, messages: 1}]\n",
            ["brokers.0.quotas.1.principal", "write 'User:anna'"],
        ),
    ],
)
def test_principals_that_no_client_of_kafka_has_are_warned_of(
    run_in: Run, more: str, expected: list[str]
) -> None:
    result = run_in(BROKERS + more, "check", "gateway.yaml")
    assert result.exit_code == 0
    assert result.stderr.count("warning[config]") == 1
    for text in expected:
        assert text in result.stderr


def test_pulsars_roles_are_any_names(run_in: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "pulsar")
    text = BROKERS.replace("kafka", "pulsar") + "    exempt: {principals: [anna]}\n"
    result = run_in(text, "check", "gateway.yaml")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("policies", "remedy"),
    [
        ("broker: {max_publish_rate: 5/s, burst: 5}", "did you mean 'burst_seconds'?"),
        ("topics: [{name: 'orders\\..*', max_publish_rate: 5/s}]", "'*' stands for any characters"),
        ("topics: [{name: '^orders$', max_publish_rate: 5/s}]", "all others for themselves; on kafka"),
        (
            'topics: [{name: "orders\\..*", max_publish_rate: 5/s}]',
            "put text with a backslash in single quotes",
        ),
    ],
)
def test_mistakes_that_suggest_what_was_meant_get_that_remedy(
    run_in: Run, policies: str, remedy: str
) -> None:
    result = run_in(f"{BROKERS}policies:\n  {policies}\n", "check", "gateway.yaml")
    assert result.exit_code == 1
    assert remedy in result.stderr


def test_what_stands_in_the_wrong_section_is_shown_without_its_secrets(run_in: Run) -> None:
    quotas = "quotas: [{principal: anna, messages: 5/s}, {principal: eva, password: hunter2}]"
    result = run_in(f"{BROKERS}{quotas}\nkennwort: hunter3\n", "check", "gateway.yaml")
    assert "quotas: [{principal: anna, messages: 5/s}, {principal: eva, password: ***" in result.stderr
    assert "move it to brokers.0" in result.stderr
    assert "hunter" not in result.output


@pytest.mark.parametrize(
    ("admin", "told"),
    [
        ("{host: 127.0.0.1}", ""),
        ("{host: localhost}", ""),
        ("{host: 0.0.0.0}", "note[config]: the admin endpoint on 0.0.0.0 speaks plain HTTP to other hosts"),
        (
            f"{{host: '::', callers: [{{name: ci, sha256: {'ab' * 32}}}]}}",
            "warning[config]: the admin endpoint on :: speaks plain HTTP to other hosts, so their tokens",
        ),
    ],
)
def test_an_admin_endpoint_for_other_hosts_without_tls_is_told_of(run_in: Run, admin: str, told: str) -> None:
    result = run_in(f"{BROKERS}admin: {admin}\n", "check", "gateway.yaml")
    assert result.exit_code == 0
    assert (told in result.stderr, "set admin.tls" in result.stderr) == (True, bool(told))


@pytest.mark.parametrize(
    ("admin", "told"),
    [
        ("{callers: [{name: ci}]}", "'ci' has neither 'sha256' nor 'certificate'"),
        (
            f"{{callers: [{{name: ci, sha256: {'ab' * 32}, certificate: CN=a}}]}}",
            "'ci' has both 'sha256' and 'certificate'",
        ),
        (
            "{callers: [{name: ci, certificate: CN=a}]}",
            "nothing verifies the client certificate of 'ci'",
        ),
        ("{tls: {cert: a.pem, key: a.key}}", "cannot read 'a.pem'"),
        ("{tls: {cert: a.pem}}", "missing key 'key'"),
    ],
)
def test_tls_and_callers_of_the_admin_endpoint_are_checked(run_in: Run, admin: str, told: str) -> None:
    result = run_in(f"{BROKERS}admin: {admin}\n", "check", "gateway.yaml")
    assert result.exit_code == 1
    assert told in result.stderr
