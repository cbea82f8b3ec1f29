"""`sluicegate top`: topics, principals, clients, who is held and why, as they are now."""

import shutil
import time
from typing import Any

import click

from sluicegate.cli.asking import RunningGateway, look_for
from sluicegate.cli.options import config_file
from sluicegate.cli.single_keys import next_key, single_keys
from sluicegate.cli.top_frame import REASONS, VIEWS, View, by_reason, frame, with_rates
from sluicegate.output import echo, echo_json
from sluicegate.output.console import Console

_KEYS = {"t": "topics", "p": "principals", "c": "clients", "h": "held", "r": "reasons"}
_HELP = "t p c h r views  s sort  / filter  q quit"
_ESCAPE, _ENTER, _BACKSPACE = "\x1b", "\r\n", "\x7f\b"
_PAGE = 1_000


@click.command()
@config_file
@click.option("--broker", default="", metavar="NAME", help="Only this broker.")
@click.option(
    "--view", type=click.Choice(list(VIEWS)), default="topics", show_default=True, help="What to begin with."
)
@click.option("--sort", default="", metavar="COLUMN", help="Column to sort by, or name.")
@click.option("--filter", "text", default="", metavar="TEXT", help="Only names that contain it.")
@click.option(
    "--interval",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.2, 60),
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="Print one table and end, for scripts.")
@click.option("--json", "is_json", is_flag=True, help="Print the rows of one look as JSON.")
def top(
    file: str, broker: str, view: str, sort: str, text: str, interval: float, once: bool, is_json: bool
) -> None:
    """Show what passes through the running gateway, and who is held and why.

    Rates are of the last interval; `use` is the share of the limit that is used most. Keys: t topics,
    p principals, c clients, h held requests, r refusals and holds by reason; s sorts by the next column,
    / filters, q ends.
    """
    looked = look_for(file)
    if looked.gateway is None:
        raise click.ClickException(f"{file}: {looked.reason}: start one, or name its file by -c")
    screen = _Screen(looked.gateway, broker, view, sort, text)
    if once or is_json:
        screen.look()
        time.sleep(interval)
        rows = screen.look()
        if is_json:
            echo_json(rows)
        else:
            echo(*screen.lines(rows, shutil.get_terminal_size().columns, len(rows) + 2))
        return
    with single_keys() as has_keys:
        _run(screen, interval, has_keys=has_keys)


class _Screen:
    """What is shown: a view, its order and its filter."""

    def __init__(self, gateway: RunningGateway, broker: str, view: str, sort: str, text: str) -> None:
        self.name = view
        self.text = text
        self.typing = False
        self._gateway = gateway
        self._broker = broker
        self._sort = sort
        self._before: list[dict[str, Any]] = []
        self._at = 0.0

    @property
    def view(self) -> View:
        return VIEWS[self.name]

    def look(self) -> list[dict[str, Any]]:
        """Ask the gateway; rates are of the time since the look before."""
        page = self._gateway.ask_json("GET", f"/api/v1{self.view.path}?limit={_PAGE}&broker={self._broker}")
        rows = page[self.view.plural]
        if self.view is REASONS:
            rows = by_reason(rows)
        now = time.monotonic()
        for row in rows:
            if "since_ms" in row:
                row["for_s"] = max(0.0, time.time_ns() / 1e9 - row["since_ms"] / 1000)
        shown = with_rates(self.view, rows, self._before, max(0.001, now - self._at))
        self._before, self._at = rows, now
        return shown

    def lines(self, rows: list[dict[str, Any]], width: int, height: int) -> list[str]:
        """The lines of the screen."""
        sort = self._sort or self.view.columns[0].head
        table = frame(self.view, rows, sort, self.text, width, height - 1)
        foot = f"filter: {self.text}_" if self.typing else f"{self.name} by {sort}"
        note = f"  filter {self.text!r}" if self.text and not self.typing else ""
        return [*table, f"{foot}{note}  [{_HELP}]"[:width]]

    def press(self, key: str) -> bool:
        """Do what a key stands for.

        :return: False to end.
        """
        if self.typing:
            self._type(key)
        elif key in _KEYS:
            self.name, self._before, self._sort = _KEYS[key], [], ""
        elif key == "s":
            heads = ["name", *(each.head for each in self.view.columns)]
            now = self._sort or heads[1]
            self._sort = heads[(heads.index(now) + 1) % len(heads)] if now in heads else heads[1]
        elif key == "/":
            self.typing, self.text = True, ""
        return key != "q" or self.typing

    def _type(self, key: str) -> None:
        if key in _ENTER or key == _ESCAPE:
            self.typing = False
            self.text = "" if key == _ESCAPE else self.text
        elif key in _BACKSPACE:
            self.text = self.text[:-1]
        elif key.isprintable():
            self.text += key


def _run(screen: _Screen, interval: float, *, has_keys: bool) -> None:
    try:
        while True:
            rows = screen.look()
            _draw(screen, rows)
            until = time.monotonic() + interval
            while (rest := until - time.monotonic()) > 0:
                if not has_keys:
                    time.sleep(rest)
                elif key := next_key(rest):
                    if not screen.press(key):
                        return
                    if key in _KEYS and not screen.typing:
                        break  # another view asks anew
                    _draw(screen, rows)
    except KeyboardInterrupt:
        return


def _draw(screen: _Screen, rows: list[dict[str, Any]]) -> None:
    size = shutil.get_terminal_size()
    console = Console(width=size.columns)
    console.clear()
    for line in screen.lines(rows, size.columns, size.lines - 1):
        console.print(line, soft_wrap=True)
