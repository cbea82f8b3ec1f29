"""`sluicegate check FILE`."""

import os
import sys
from collections.abc import Iterator, Sequence

import click

from sluicegate.cli.findings import budget_findings, file_findings, policy_warnings, store_findings
from sluicegate.cli.opening import Opened, counted, plugin_errors
from sluicegate.config.errors import ConfigErrors, Finding, by_location, render
from sluicegate.config.load import Loaded, Reading, parse_file, read
from sluicegate.config.port_conflicts import unserved
from sluicegate.output import echo, echo_document, echo_json
from sluicegate.runtime.plugins import Plugins, load_plugins


@click.command()
@click.argument("file", type=click.Path(readable=False))
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON, for editors and CI.")
@click.option(
    "--no-files",
    is_flag=True,
    help="Skip files of this machine that FILE refers to, such as TLS files: for a check on another machine.",
)
@click.option(
    "--live", is_flag=True, help="Also ask the brokers, and warn of policies that admit what they refuse."
)
def check(file: str, is_json: bool, no_files: bool, live: bool) -> None:
    """Report every error in FILE in one pass, without changing anything.

    Environment variables that start with SLUICEGATE__ are checked too, as are the TLS files and directories
    that FILE refers to. The exit code is 1 if there are errors. Warnings report settings without the expected
    effect, such as a policy that a configured broker cannot apply, and brokers whose extra is not installed
    here. Notes report what may well be meant, such as a name that only some brokers of the file can have.
    """
    reading, more = _read(file, with_files=not no_files, live=live)
    findings = by_location([*reading.findings, *more])
    errors = [finding for finding in findings if finding.severity == "error"]
    if is_json:
        report = {"file": file, "ok": not errors, "findings": [finding.as_json() for finding in findings]}
        echo_json(report)
    else:
        _print(file, findings, reading.loaded if not errors else None)
    sys.exit(1 if errors else 0)


def _read(file: str, *, with_files: bool, live: bool) -> tuple[Reading, list[Finding]]:
    """Read a file as far as possible, and check the files and plugins that it refers to."""
    try:
        parsed = parse_file(file, os.environ)
        with plugin_errors(file, parsed.root):
            plugins = load_plugins(parsed.plugin_modules)
            reading = read(file, plugins.policy_models, plugins.every_broker_model, os.environ, parsed)
    except ConfigErrors as refused:
        return Reading(tuple(refused.errors), None), []
    more: list[Finding] = []
    if with_files:
        more += file_findings(reading, "error", warn_of_expiry=True)
    more += _left_out(reading, plugins)
    if reading.loaded is not None:
        opened = Opened(reading.loaded, plugins)
        more += policy_warnings(opened)
        more += unserved(opened.loaded.root, opened.loaded.config.brokers, "note")
        more += store_findings(opened) if with_files else ()
        more += budget_findings(opened)
        if live and not any(finding.severity == "error" for finding in (*reading.findings, *more)):
            from sluicegate.cli.live import live_warnings

            more += live_warnings(opened)
    return reading, more


def _left_out(reading: Reading, plugins: Plugins) -> Iterator[Finding]:
    """Warn of brokers that this installation cannot serve; `run` refuses them."""
    for index, broker in reading.brokers:
        absent = plugins.left_out.get(broker.system)
        if absent is not None and reading.root is not None:
            path = ("brokers", index, "system")
            message = f"cannot serve system {broker.system!r} here: {absent.problem}"
            yield reading.root.nearest(path).error(path, message, absent.remedy, "warning")


def _print(file: str, findings: Sequence[Finding], loaded: Loaded | None) -> None:
    if findings:
        echo_document(render(findings), err=True)
    if loaded is None:
        echo("", f"{file}: {counted(findings)}, nothing applied", err=True)
    else:
        echo(f"{file}: ok, {summary(loaded)}")


def summary(loaded: Loaded) -> str:
    """Summarize a file in one line."""
    brokers = ", ".join(f"{broker.name} ({broker.system})" for broker in loaded.config.brokers)
    settings = sum(len(layer.settings) + len(layer.ceilings) for layer in loaded.policy_layers)
    levels = len(loaded.policy_layers)
    return (
        f"{'broker' if len(loaded.config.brokers) == 1 else 'brokers'} {brokers}; {settings} "
        f"policy setting{'' if settings == 1 else 's'} in {levels} place{'' if levels == 1 else 's'}"
    )
