"""`sluicegate explain`: the effective policies of a topic, or the reason of a refusal."""

import os
import re
import time
from collections.abc import Mapping
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import click

from sluicegate.admin import EFFECTIVE_POLICIES
from sluicegate.admin.running_note import digest_of, file_mark
from sluicegate.cli.asking import GatewayError, RunningGateway, look_for, which_broker
from sluicegate.cli.explained import as_text
from sluicegate.cli.options import config_file
from sluicegate.output import echo, echo_document, echo_json

if TYPE_CHECKING:
    from sluicegate.cli.opening import Opened

_DECISION_ID = re.compile(r"[0-9a-z]{4,}-[0-9a-z]+")


@click.command()
@click.argument("subject", required=False, metavar="[TOPIC|ID]")
@config_file
@click.option("--broker", metavar="NAME", help="Broker entry, if the file has several.")
@click.option("--principal", metavar="NAME", help="With TOPIC: what holds for this principal.")
@click.option(
    "--client",
    metavar="ID",
    help="With TOPIC: what holds for this client id. Without: explain its last refusal.",
)
@click.option("--group", metavar="NAME", help="With TOPIC: what holds for this subscription or group.")
@click.option("--all", "with_defaults", is_flag=True, help="Show defaults and unset policies, too.")
@click.option("--json", "is_json", is_flag=True, help="Print a topic's policies as JSON.")
def explain(
    subject: str | None,
    file: str,
    broker: str | None,
    principal: str | None,
    client: str | None,
    group: str | None,
    with_defaults: bool,
    is_json: bool,
) -> None:
    """Show the effective policies of TOPIC and their sources, or why the decision with ID was a refusal.

    Where policies are for some clients alone (`for`), those that hold for everybody else are shown, and then
    what differs for them. Name a principal, a client id or a group to see what holds for it.

    A gateway that runs on this host with FILE is asked for the policies that it has in force. If there is
    none, they are read from FILE and its store; the second line says which.

    ID is the id in brackets in the error of a refused client: `[sluicegate k3x9qa-1f]`. The whole error text
    works too.
    """
    source = _Source(file)
    if subject is None:
        if client is None or principal is not None or group is not None:
            raise click.UsageError("expected a topic, a decision id, or --client ID")
        echo_document(_last_refusal(source, client))
        return
    asked = {"principal": principal, "client": client, "group": group}
    asker = {kind: name for kind, name in asked.items() if name is not None}
    refusal = None if asker else _refusal(source, subject)
    if refusal is not None:
        echo_document(refusal)
        return
    explained, origin = source.explain(subject, broker, asker)
    if is_json:
        echo_json({**explained, "origin": origin.as_json()})
    else:
        now_ms = time.time_ns() // 1_000_000
        echo(*as_text(explained, origin.text, now_ms, with_defaults=with_defaults))


class _Origin(NamedTuple):
    """Where policies come from."""

    text: str
    process: int | None = None
    """The gateway's; None if they were read from the file."""
    differs: bool = False
    """Whether the file is another one than the gateway has in force."""

    def as_json(self) -> dict[str, object]:
        if self.process is None:
            return {"from": "file"}
        return {"from": "gateway", "process": self.process, "file_differs": self.differs}


class _Source:
    """A configuration file, and the gateway that runs with it, if any.

    :param file: its path.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._looked = look_for(file)

    @cached_property
    def _opened(self) -> "Opened":
        from sluicegate.cli.opening import open_file

        return open_file(self._file, os.environ)

    @property
    def state_dir(self) -> str:
        """The `state_dir` of the file."""
        return self._looked.state_dir or self._opened.loaded.config.state_dir

    def explain(
        self, topic: str, broker: str | None, asker: Mapping[str, str]
    ) -> tuple[dict[str, Any], _Origin]:
        """The effective policies of a topic, and where they come from."""
        gateway, reason = self._looked.gateway, self._looked.reason
        if gateway is not None:
            try:
                return self._asked(gateway, topic, broker, asker)
            except GatewayError as error:
                reason = error.message
        from sluicegate.cli.opening import choose
        from sluicegate.runtime.effective import Asker

        opened = self._opened
        explained = opened.policies(choose(opened, broker)).explain(topic, Asker(**asker))
        return explained, _Origin(f"read from {self._file} and its store: {reason}")

    def _asked(
        self, gateway: RunningGateway, topic: str, broker: str | None, asker: Mapping[str, str]
    ) -> tuple[dict[str, Any], _Origin]:
        """What the running gateway says; raises GatewayError if it does not."""
        try:
            query = urlencode({"topic": topic, **({} if broker is None else {"broker": broker}), **asker})
        except UnicodeEncodeError:
            raise GatewayError(gateway.note, "cannot be asked for such a name") from None
        status, explained = gateway.answer("GET", f"{EFFECTIVE_POLICIES}?{query}")
        if status == HTTPStatus.OK:
            mark = file_mark(digest_of(self._looked.text), gateway.note.key)
            return explained, self._in_force(explained, differs=explained.pop("file_mark") != mark)
        if "brokers" in explained:
            raise which_broker(broker, explained["brokers"])
        raise GatewayError(gateway.note, f"answers {status}: {explained.get('detail', '')}")

    def _in_force(self, explained: dict[str, Any], *, differs: bool) -> _Origin:
        process = explained.pop("process")
        text = f"in force in the running gateway (process {process}), version {explained['version']}"
        if differs:
            text += f", which differs from {self._file}"
            hint = f"if it stays so, `sluicegate check {self._file}` and the gateway's log say why"
            echo(f"note: {self._file} is not what the gateway has in force; {hint}", err=True)
        return _Origin(text, process, differs)


def _last_refusal(source: _Source, client: str) -> str:
    from sluicegate.decisions.journal import JournalError, explain_last

    try:
        return explain_last(source.state_dir, client)
    except JournalError as error:
        raise click.ClickException(str(error)) from None


def _refusal(source: _Source, subject: str) -> str | None:
    """The journal's explanation; None if the subject is a topic (topics can look like ids)."""
    marked = "[sluicegate " in subject
    if not marked and not _DECISION_ID.fullmatch(subject):
        return None
    from sluicegate.decisions.journal import JournalError, explain_refusal

    try:
        return explain_refusal(source.state_dir, subject)
    except JournalError as error:
        if marked:
            raise click.ClickException(str(error)) from None
        echo(f"note: {error}; explaining it as a topic", err=True)
        return None
