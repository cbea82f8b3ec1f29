"""`sluicegate explain`: the effective policies of a topic, or the reason of a refusal."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import click

from sluicegate.cli.aligning import aligned
from sluicegate.cli.following import adaptive_lines, as_json, factor_lines, remembered_factors
from sluicegate.cli.opening import Desk, Opened, config_file, open_file, read_facts
from sluicegate.config.models import BrokerConfig
from sluicegate.model import EffectivePolicies
from sluicegate.output import echo, echo_document, echo_json

_DECISION_ID = re.compile(r"[0-9a-z]{4,}-[0-9a-z]+")
_PER_GATE = "each gateway process counts limits on its own"


@dataclass(frozen=True, slots=True)
class Line:
    """One effective setting, formatted for output."""

    field: str
    value: str
    level: str
    source: str
    location: str
    ceiling: str
    applies: str
    """How the broker supports this policy: native, emulated, not applicable; empty if unknown."""


@click.command()
@click.argument("subject", required=False, metavar="[TOPIC|ID]")
@config_file
@click.option("--broker", metavar="NAME", help="Broker entry, if the file has several.")
@click.option(
    "--client", metavar="ID", help="Explain the last refusal of this client id instead of TOPIC or ID."
)
@click.option("--json", "is_json", is_flag=True, help="Print a topic's policies as JSON.")
def explain(subject: str | None, file: str, broker: str | None, client: str | None, is_json: bool) -> None:
    """Show the effective policies of TOPIC and their sources, or why the decision with ID was a refusal.

    ID is the id in brackets in the error of a refused client: `[sluicegate k3x9qa-1f]`. The whole error text
    works too.
    """
    if (subject is None) == (client is None):
        raise click.UsageError("expected a topic, a decision id, or --client ID")
    opened = open_file(file, os.environ)
    state_dir = opened.loaded.config.state_dir
    if client is not None:
        echo_document(_last_refusal(state_dir, client))
        return
    assert subject is not None  # noqa: S101 - checked above
    refusal = _refusal(state_dir, subject)
    if refusal is not None:
        echo_document(refusal)
        return
    chosen = _choose(opened, broker)
    effective = effective_policies(opened, chosen, subject)
    lines = shown(opened, chosen, effective)
    facts = read_facts(opened, chosen.name)
    if is_json:
        echo_json(_as_json(lines, effective, facts))
    else:
        echo(*_as_text(lines, effective, opened, chosen, facts))


def _last_refusal(state_dir: str, client: str) -> str:
    from sluicegate.decisions.journal import JournalError, explain_last

    try:
        return explain_last(state_dir, client)
    except JournalError as error:
        raise click.ClickException(str(error)) from None


def _refusal(state_dir: str, subject: str) -> str | None:
    """The journal's explanation; None if the subject is a topic (topics can look like ids)."""
    from sluicegate.decisions.journal import JournalError, explain_refusal

    marked = "[sluicegate " in subject
    if not marked and not _DECISION_ID.fullmatch(subject):
        return None
    try:
        return explain_refusal(state_dir, subject)
    except JournalError as error:
        if marked:
            raise click.ClickException(str(error)) from None
        echo(f"note: {error}; explaining it as a topic", err=True)
        return None


def _choose(opened: Opened, name: str | None) -> BrokerConfig:
    brokers = opened.loaded.config.brokers
    if name is None and len(brokers) == 1:
        return brokers[0]
    for broker in brokers:
        if broker.name == name:
            return broker
    known = ", ".join(broker.name for broker in brokers)
    what = "which broker?" if name is None else f"unknown broker {name!r}:"
    raise click.UsageError(f"{what} expected --broker with one of: {known}")


def effective_policies(opened: Opened, broker: BrokerConfig, topic: str) -> EffectivePolicies:
    """Merge the policies of file and store for one topic."""
    name = opened.plugins.drivers[broker.system].name_of(topic, broker)
    return Desk(opened).resolver(broker.name).resolve(name)


def shown(opened: Opened, broker: BrokerConfig, effective: EffectivePolicies) -> list[Line]:
    """The effective settings in the order of the plugins' fields, followed by options."""
    fields, capabilities = opened.loaded.fields, opened.capabilities(broker.system)
    lines = []
    for name in (name for name in fields.settings if name in effective.values):
        found = effective.provenance[name]
        lines.append(
            Line(
                field=name,
                value=fields.text(name, effective.values[name]),
                level=found.level.label if found.level is not None else "",
                source=found.source.label,
                location=found.location,
                ceiling=found.ceiling,
                applies=capabilities.get(name, ""),
            )
        )
    return lines


def _as_json(lines: list[Line], effective: EffectivePolicies, facts: Mapping[str, str]) -> dict[str, object]:
    policies = {
        line.field: {
            "value": effective.values[line.field],
            "text": line.value,
            **{key: value for key, value in asdict(line).items() if key not in ("field", "value")},
        }
        for line in lines
    }
    found = {"topic": effective.topic, "observe_only": effective.observe_only, "policies": policies}
    return found | as_json(remembered_factors(facts, effective), facts)


def _as_text(
    lines: list[Line],
    effective: EffectivePolicies,
    opened: Opened,
    broker: BrokerConfig,
    facts: Mapping[str, str],
) -> list[str]:
    name = opened.plugins.drivers[broker.system].name_of(effective.topic, broker)
    rows = [("policy", "value", "level", "source", "where")]
    rows += [(line.field, line.value, line.level or "-", line.source, _where(line)) for line in lines]
    fields = opened.loaded.fields
    unset = [name for name in fields.policies if name not in effective.values]
    text = [f"topic {effective.topic}, namespace {name.namespace}, broker {broker.name} ({broker.system})"]
    if effective.observe_only:
        text.append("observe only: everything is recorded, nothing is applied")
    text += ["", *aligned(rows), ""]
    if unset:
        text.append(f"not set, so without effect: {', '.join(unset)}")
    text.append(_PER_GATE)
    now_ms = time.time_ns() // 1_000_000
    text += factor_lines(remembered_factors(facts, effective), effective, fields, now_ms)
    text += adaptive_lines(facts, effective.topic, now_ms)
    return text


def _where(line: Line) -> str:
    notes = [line.location or "built in"]
    if line.ceiling:
        notes.append(f"tightened by {line.ceiling}")
    if line.applies == "not applicable":
        notes.append("not applicable to this broker: does nothing")
    return ", ".join(notes)
