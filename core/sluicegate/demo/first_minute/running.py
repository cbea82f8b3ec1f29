"""Runs the first minute: brokers, one gateway, the clients, and what is printed."""

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from sluicegate.demo.first_minute.judging import Result
from sluicegate.demo.first_minute.picture import Caption, picture
from sluicegate.demo.first_minute.play import Play
from sluicegate.demo.first_minute.screen import Screen, summary
from sluicegate.demo.gateway_process import Gateway
from sluicegate.demo.page import Page
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import GATEWAY_LOG, Backend, BrokerDemo
from sluicegate.host.children import Child

SECONDS = 34.0
"""How long the first system's play takes."""
_OTHERS = 0.3
"""The others' plays are shorter."""
_ORDER = ("kafka", "pulsar", "danube")
_START_S = 120.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show."""

    directory: Path
    """Existing directory for the policy file, logs and state."""
    seconds: float = SECONDS
    picture: Path | None = None
    """Where to write the picture."""


class _Minute:
    """The processes of the first minute."""

    def __init__(self, demos: Mapping[str, BrokerDemo], wanted: Wanted, page: Page) -> None:
        self._demos = demos
        self._wanted = wanted
        self._page = page
        self._brokers: dict[str, Child] = {}
        directory = wanted.directory
        self._file = PolicyFile(directory / "gateway.yaml", directory / "state", free_ports(1))

    async def run(self) -> list[str]:
        """Show it; return what it did not show, a sentence each."""
        began = time.monotonic()
        first, *others = sorted(self._demos, key=lambda system: (*_ORDER, system).index(system))
        self._introduce(self._demos[first])
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(self._start(stack, system) for system in self._demos))
            self._file.write()
            gateway = Gateway(self._file, self._file.admin_port, self._wanted.directory / GATEWAY_LOG)
            await stack.enter_async_context(gateway)
            self._page.say(
                f"To look at while it runs: {gateway.admin}/metrics and {gateway.admin}/readyz?verbose"
            )
            with Screen(self._page, gateway.admin) as screen:
                play = self._play(first, self._wanted.seconds, screen.show)
                result = await play.run()
            self._say_more(play, result)
            problems = [*result.problems]
            if others:
                self._page.say("\nThe same on the others, side by side:", "bold")
                results = await asyncio.gather(*(self._other(system) for system in others))
                problems += [problem for each in results for problem in each]
        self._say_next(first)
        shown = f"{', '.join((first, *others))}, in {time.monotonic() - began:.0f} s"
        if not problems:
            self._page.say(f"\nIt showed what it claims, on {shown}.", "bold green")
        return problems

    def _introduce(self, demo: BrokerDemo) -> None:
        self._page.say(f"$ cd {self._wanted.directory}\n$ sluicegate run -c gateway.yaml", "bold green")
        self._page.say(
            f"Two programs share a broker through this gateway: a neighbour, which sends little, and a noisy "
            f"producer.\nThe client is {demo.client}. The broker is embedded: {demo.label}. As it keeps\n"
            f"all in memory, the demo puts a slow disk before it: one queue for the bytes of all clients."
        )

    def _say_next(self, system: str) -> None:
        file = shlex.quote(str(self._file.path))
        topic = self._demos[system].shared.noisy
        self._page.say("\nTo try next:", "bold")
        self._page.say(
            f"  sluicegate demo --all      # each policy on each system, then a comparison of the systems\n"
            f"  sluicegate policies history -c {file}      # who set which limit, and why\n"
            f"  sluicegate explain {topic} --broker {system} -c {file}      # what holds for a topic"
        )

    async def _start(self, stack: AsyncExitStack, system: str) -> None:
        log = self._wanted.directory / f"backend-{system}.log"
        child = Child(f"{system}'s broker", "sluicegate.demo.backend", [system, "slow"], log)
        self._brokers[system] = await stack.enter_async_context(child)
        up = (await child.hear("up", _START_S))["up"]
        listen = {"host": "127.0.0.1", "port": free_ports(up["gateway_ports"])}
        self._file.add(system, self._demos[system], Backend({**up["entry"], "listen": listen}), [])

    def _play(self, system: str, seconds: float, changed: Callable[[Play], None]) -> Play:
        return Play(
            system,
            self._demos[system].shared,
            self._file.address(system),
            self._brokers[system],
            self._wanted.directory,
            seconds,
            changed,
        )

    async def _other(self, system: str) -> list[str]:
        play = self._play(system, self._wanted.seconds * _OTHERS, lambda _: None)
        result = await play.run()
        refusal = f"{play.record.refusal} ({self._demos[system].client})"
        self._page.say(summary(system, result, refusal), "" if not result.problems else "bold red")
        return [f"{system}: {problem}" for problem in result.problems]

    def _say_more(self, play: Play, result: Result) -> None:
        page = self._page
        assert play.calibrated is not None and play.explained is not None  # noqa: S101, PT018 - it was played
        refusal = f"{play.record.refusal} ({self._demos[play.system].client})"
        page.say(summary(play.system, result, refusal), "bold")
        disk = play.calibrated.bytes_per_second / 1_000
        page.say(f"(The disk writes {disk:,.0f} kB/s, chosen by what this machine took at the start.)")
        page.say(f"\n$ {play.explained.line}", "bold green")
        page.say(play.explained.text)
        if self._wanted.picture is not None:
            command = [
                "sluicegate policies set topic",
                f"  {play.shared.noisy} max_publish_rate={result.limit}/s",
            ]
            source = f"{self._demos[play.system].client} through sluicegate; embedded broker with a slow disk"
            drawn = picture(play.record, result, Caption(command, source))
            self._wanted.picture.write_text(drawn, encoding="utf-8")
            page.say(f"picture: {self._wanted.picture}")


async def run_first_minute(demos: Mapping[str, BrokerDemo], wanted: Wanted, page: Page) -> list[str]:
    """Show the first minute.

    :param demos: the demo of each kind of broker, by system; the first of Kafka, Pulsar and Danube is drawn.
    :param page: standard output.
    :return: what it did not show, a sentence each.
    :raises GatewayError: if the gateway does not start.
    :raises ChildError: if a broker or a client does not start, or ends.
    :raises OSError: if there is no free port, or a file cannot be written.
    """
    return await _Minute(demos, wanted, page).run()
