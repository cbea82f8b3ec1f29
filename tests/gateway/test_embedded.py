import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import echo_plugin
from tests.gateway.lab import on_uvloop, upstream
from tests.waiting import LONG_S, until_so

from sluicegate import hookimpl
from sluicegate.broker import Listener
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.models import GatewayConfig
from sluicegate.model import Level, PolicyLayer, PolicyValue, Setting, Source
from sluicegate.net.listening.acceptor import Acceptor
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate.runtime.plugins import CHOICE
from sluicegate.testing import NullSink

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def layer(**values: PolicyValue) -> PolicyLayer:
    settings = {name: Setting(value, Source.FILE, "gateway.yaml:1") for name, value in values.items()}
    return PolicyLayer(Level.BROKER, "", settings)


def config(port: int, state_dir: Path | str = "var", **broker: Any) -> GatewayConfig:
    entry = {
        "name": "b1",
        "system": "echo",
        "bootstrap": [f"127.0.0.1:{port}"],
        "listen": {"port": 0},
        **broker,
    }
    return GatewayConfig(brokers=(echo_plugin.EchoConfig.model_validate(entry),), state_dir=str(state_dir))


def gateway(settings: GatewayConfig, *layers: PolicyLayer, **options: Any) -> EmbeddedGateway:
    plugins = (echo_plugin, *options.pop("plugins", ()))
    return EmbeddedGateway(settings, layers, plugins=plugins, make_sink=lambda broker: NullSink(), **options)


class Client:
    """One line out, one line back."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, served: EmbeddedGateway) -> "Client":
        return cls(*await asyncio.open_connection(*served.address()))

    async def say(self, line: str) -> str:
        self.writer.write(f"{line}\n".encode())
        return (await self.reader.readline()).decode().rstrip("\n")

    def close(self) -> None:
        self.writer.close()


@on_uvloop
async def test_policies_hold_for_clients() -> None:
    async with upstream() as port, gateway(config(port), layer(max_message_size=100)) as served:
        client = await Client.to(served)
        assert await client.say("publish t 100") == "publish t 100"
        refused = await client.say("publish t 101")
        assert refused.startswith("refused 1 ")
        assert "100" in refused
        client.close()


@on_uvloop
async def test_a_worker_shows_limits_in_use_clients_and_what_is_held() -> None:
    async with upstream() as port, gateway(config(port), layer(max_publish_rate=1)) as served:
        client, worker = await Client.to(served), served.worker()
        assert await client.say("publish t 100") == "publish t 100"
        client.writer.write(b"publish t 100\npublish t 100\n")
        await until_so(lambda: worker.snapshot()["held"])
        [held] = worker.snapshot()["held"]
        assert (held["topic"], held["operation"], held["policy"]) == ("t", "publish", "max_publish_rate")
        assert held["address"].startswith("127.0.0.1:")
        await worker.tick(time.monotonic_ns())
        shown = worker.snapshot()
        assert shown["topics"]["t"]["use"]["max_publish_rate"]["limit"] == 1
        assert shown["use"]["max_publish_rate"]["limit"] == 1
        assert shown["principals"]["ANONYMOUS"]["delayed"] >= 1
        assert shown["clients"]["echo"]["published_messages"] >= 1
        client.close()


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_listeners_opened_during_shutdown_are_closed(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    opened: list[Acceptor] = []
    open_now = Acceptor.open

    @on_uvloop
    async def play() -> None:
        async with upstream() as port, gateway(config(port)) as served:
            worker = served.worker()
            first = worker.listeners._acceptors["bootstrap"]

            async def open_once_the_first_is_closed(*args: Any) -> Acceptor:
                while first.bound.fileno() >= 0:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                opened.append(await open_now(*args))
                return opened[-1]

            monkeypatch.setattr(Acceptor, "open", open_once_the_first_is_closed)
            worker.spawn(worker.listen(Listener("late", "127.0.0.1", 0, ())))
            if end == "stop":
                await worker.stop()
            else:
                client = await Client.to(served)
                assert await client.say("x") == "x"
                draining = asyncio.ensure_future(worker.drain(LONG_S))
                await until_so(lambda: opened)
                assert opened[0].bound.fileno() < 0
                await draining
                client.close()
            assert [each.bound.fileno() for each in opened] in ([], [-1])

    play()


@pytest.mark.seed("S1-024")
@on_uvloop
async def test_changed_policies_reach_a_connected_client_and_counts_are_kept() -> None:
    async with upstream() as port, gateway(config(port), layer(max_producers_per_topic=2)) as served:
        first, second = await Client.to(served), await Client.to(served)
        assert await first.say("publish t 1") == "publish t 1"
        assert await second.say("publish t 1") == "publish t 1"
        version = served.worker().policies.version
        changed = served.set_policies([layer(max_producers_per_topic=2, max_message_size=10)])
        assert changed == served.worker().policies.version != version
        assert (await first.say("publish t 11")).startswith("refused")
        third = await Client.to(served)
        assert (await third.say("publish t 1")).startswith("refused")
        second.close()
        state = served.worker().gates.states["t"]
        await until_so(lambda: len(state.producers) < 2)
        assert await third.say("publish t 1") == "publish t 1"
        for each in (first, third):
            each.close()


@on_uvloop
async def test_rate_limited_clients_are_held_and_lose_nothing() -> None:
    async with upstream() as port, gateway(config(port), layer(max_publish_rate=20)) as served:
        client = await Client.to(served)
        lines = [f"publish t {number + 1}\n" for number in range(26)]
        client.writer.write("".join(lines).encode())
        assert {(await client.reader.readline()).decode() for _ in lines} == set(lines)
        (snapshot,) = served.snapshot()
        assert served.worker().gates.states["t"].delayed > 0
        assert snapshot["counters"]["connections_accepted"] == 1
        client.close()


@on_uvloop
async def test_tick_reaches_the_front_and_takes_samples() -> None:
    async with upstream() as port, gateway(config(port)) as served:
        client = await Client.to(served)
        assert await client.say("publish t 5") == "publish t 5"
        worker = served.worker()
        await worker.tick(SECOND)
        (snapshot,) = served.snapshot()
        assert snapshot["front"] == {"lines": 7}
        assert snapshot["topics"]["t"]["producers"] == 1
        assert snapshot["gauges"]["connections"] == 1
        assert snapshot["gauges"]["policy_version"] == worker.policies.version
        client.close()


@on_uvloop
async def raising_plugins(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[Callable[[str], None]] = []

    class Raising:
        @hookimpl
        def sluicegate_policy_checks(self, topic: Any, policies: Any, context: Any) -> Any:
            raise RuntimeError("cannot compile")

        @hookimpl
        def sluicegate_startup(self, log: Callable[[str], None]) -> None:
            lines.append(log)
            log("about to start")
            raise RuntimeError("cannot start")

    async with upstream() as port, gateway(config(port), plugins=[Raising()]) as served:
        client = await Client.to(served)
        assert await client.say("publish t 5") == "publish t 5"
        (faults,) = [each["plugin_faults"] for each in served.snapshot()]
        assert list(faults.values()) == [2]
        client.close()
    assert lines
    assert "about to start" in caplog.text
    assert "cannot start" in caplog.text


def test_plugin_that_raises_stops_no_traffic(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    raising_plugins(caplog)


@on_uvloop
async def test_address_in_use_is_reported_and_nothing_stays_open() -> None:
    async with upstream() as port, gateway(config(port)) as served:
        _, taken = served.address()
        second = gateway(config(port, listen={"port": taken}))
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{taken}"):
            await second.__aenter__()


@on_uvloop
async def from_file(directory: Path) -> None:
    async with upstream() as port:
        file = directory / "gateway.yaml"
        file.write_text(
            f"brokers: [{{name: b1, system: echo, bootstrap: ['127.0.0.1:{port}'], listen: {{port: 0}}}}]\n"
            f"state_dir: {directory}\n"
            "policies: {broker: {max_message_size: 10}}\n"
        )
        async with EmbeddedGateway.from_file(file, plugins=[echo_plugin], environ={}) as served:
            client = await Client.to(served)
            assert await client.say("publish t 10") == "publish t 10"
            refused = await client.say("publish t 11")
            assert refused.startswith("refused ")
            client.close()
        # What was refused can be explained by its id.
        assert (directory / "refusals.db").exists()
        assert list((directory / "decisions").rglob("*.parquet"))


def test_a_file_for_clients_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("brokers:\n  - {name: b1, system: echo, bootstrap: ['127.0.0.1:1']}\n")
    with pytest.raises(ConfigErrors, match=r"policies\.yaml:2:.*\n.*\n.*for a gateway add 'listen:"):
        EmbeddedGateway.from_file(file, plugins=[echo_plugin], environ={})


def test_gateway_from_a_file_writes_the_decision_log(tmp_path: Path) -> None:
    from_file(tmp_path)


@on_uvloop
async def test_facts_are_recalled_by_prefix() -> None:
    async with upstream() as port, gateway(config(port)) as served:
        worker = served.worker()
        worker.remember("node.1", "kafka:9092")
        assert worker.recall("node.") == {"node.1": "kafka:9092"}
        assert worker.recall("starts") == {"starts": "1"}


class Watching:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.decisions: list[Mapping[str, Any]] = []
        self.ended = 0

    @hookimpl
    def sluicegate_decisions(self, batch: Sequence[Mapping[str, Any]]) -> None:
        self.decisions.extend(batch)

    @hookimpl
    def sluicegate_shutdown(self, log: Callable[[str], None]) -> None:
        self.ended += 1
        log("ended")


class Spoiling:
    """Raises at every decision."""

    @hookimpl
    def sluicegate_decisions(self, batch: Sequence[Mapping[str, Any]]) -> None:
        raise RuntimeError("no room")


@on_uvloop
async def watched(directory: Path) -> None:
    watching = Watching()
    async with upstream() as port:
        served = EmbeddedGateway(
            config(port, directory),
            [layer(max_message_size=10)],
            plugins=[echo_plugin, watching, Spoiling()],
        )
        async with served:
            client = await Client.to(served)
            refused = await client.say("publish t 11")
            assert await client.say("publish t 10") == "publish t 10"
            client.close()
    assert [(row["action"], row["policy"]) for row in watching.decisions] == [("reject", "max_message_size")]
    assert watching.decisions[0]["decision_id"] in refused
    assert watching.ended == 1


def test_plugins_see_refusals_and_shutdown_although_another_raises(tmp_path: Path) -> None:
    watched(tmp_path)
