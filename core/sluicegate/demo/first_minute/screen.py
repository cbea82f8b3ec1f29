"""What the first minute prints: a live screen on a terminal, else a line every few seconds."""

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.text import Text

from sluicegate.demo.first_minute.judging import Result, ms
from sluicegate.demo.first_minute.play import OVER, Play
from sluicegate.demo.first_minute.plotting import plot
from sluicegate.demo.page import Page

_EVERY_S = 3.0
_WIDEST = 100
_FRAMES = 4


class Screen:
    """Shows one play while it runs.

    :param page: standard output.
    :param admin: URL of the gateway's administrative endpoint.
    """

    def __init__(self, page: Page, admin: str) -> None:
        self._page = page
        self._admin = admin
        self._live: Live | None = None
        self._stack = ExitStack()
        self._said_at = 0.0
        self._stage = ""

    def __enter__(self) -> Self:
        """Take over the terminal."""
        if self._page.console.is_terminal and not self._page.is_plain:
            live = Live(console=self._page.console, refresh_per_second=_FRAMES, auto_refresh=False)
            self._live = self._stack.enter_context(live)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture on the terminal."""
        self._stack.close()

    def show(self, play: Play) -> None:
        """Show what is new."""
        if self._live is not None:
            self._live.update(Group(*self._picture(play)), refresh=True)
        elif play.stage != self._stage:
            self._stage = play.stage
            self._say_stage(play)
        elif play.now - self._said_at >= _EVERY_S and play.calibrated is not None:
            self._said_at = play.now
            self._page.say(self._figures(play))

    def _say_stage(self, play: Play) -> None:
        self._said_at = 0.0
        if play.stage == OVER:
            self._page.say("")
            for line in self._chart(play):
                self._page.show(line)
            return
        if play.set_limit is not None:
            self._page.say(f"$ {play.set_limit.line}\n{play.set_limit.text}")
        self._page.say(f"-- {play.stage}")

    def _picture(self, play: Play) -> Iterator[Text]:
        yield from self._chart(play)
        if play.stage != OVER:
            yield Text(f"{play.now:4.0f} s  {play.stage}; look at {self._admin}/metrics", style="bold")
        if play.set_limit is not None:
            yield Text(f"$ {play.set_limit.line}", style="bold green")
            yield Text(play.set_limit.text)
        else:
            yield Text(self._figures(play).strip())
        if play.record.refusal:
            yield Text(f"the noisy producer's client says: {play.record.refusal}", style="red")

    def _chart(self, play: Play) -> Iterator[Text]:
        until = 0.0 if play.calibrated is None else play.record.ended_at or play.now
        width = min(_WIDEST, self._page.width)
        return plot(play.record, until, play.seconds, width, self._page.is_plain)

    def _figures(self, play: Play) -> str:
        latency = play.latency()
        passed = sum(at >= play.now - _EVERY_S for at in play.record.acknowledged) / _EVERY_S
        refused = sum(at >= play.now - _EVERY_S for at in play.record.refused) / _EVERY_S
        text = (
            f"{play.now:4.0f} s  neighbour p50 {ms(latency.p50):>8}, p99 {ms(latency.p99):>8}   "
            f"noisy {passed:4.0f}/s acknowledged, {refused:3.0f}/s refused"
        )
        return f"{text}: {play.record.refusal}" if play.record.refusal else text


def summary(system: str, result: Result, refusal: str) -> str:
    """One play as a line.

    :param refusal: what the noisy producer's client raised, and the name of the client.
    """
    return (
        f"{system}: the neighbour's p99 {ms(result.before.p99)}, beside the noise {ms(result.during.p99)}, "
        f"after the command {ms(result.after.p99)}; the noisy one {result.rate_during:.0f}/s, then "
        f"{result.rate_after:.0f}/s of {result.limit}/s, and told: {refusal}"
    )
