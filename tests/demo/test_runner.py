"""The runner: what a scene saw, or how it failed, is its observation; the gate serves the file as it is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.demo.scenes import NoBroker, saw, scene

from sluicegate.demo import Observation, OwnGate, Scene, Stage, runner
from sluicegate.demo.runner import Outcome, run_demo
from sluicegate.gateway.embedded import EmbeddedGateway
from sluicegate.gateway.plugins import Plugins
from sluicegate.model import PolicyLayer


async def play(demo: NoBroker, plugins: Plugins, directory: Path, *only: str) -> tuple[Outcome, list[str]]:
    lines: list[str] = []
    return await run_demo({"kafka": demo}, plugins, directory, lines.append, frozenset(only)), lines


async def test_scenes_are_played_side_by_side_and_told_in_their_order(
    plugins: Plugins, tmp_path: Path
) -> None:
    met = asyncio.Event()

    async def waits(stage: Stage) -> Observation:
        await met.wait()
        return Observation(True, "was waited for")

    async def frees(stage: Stage) -> Observation:
        met.set()
        return Observation(True, "came", "no error of any kind")

    outcome, lines = await play(NoBroker(scene("one", waits), scene("two", frees)), plugins, tmp_path)
    assert [played.observation.text for played in outcome.played] == ["was waited for", "came"]
    assert outcome.different == 0
    assert outcome.notes == {"kafka": ("it cannot do anything",)}
    assert lines[0].startswith("backend up: nothing at all")
    assert [line.split()[-1] for line in lines[-2:]] == ["two", "one"]


async def test_what_differs_raises_or_hangs_is_counted_and_the_others_are_played(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SCENE_S", 0.2)

    async def raises(stage: Stage) -> Observation:
        raise ConnectionError("nobody there")

    async def hangs(stage: Stage) -> Observation:
        await asyncio.Event().wait()
        raise AssertionError

    demo = NoBroker(
        scene("fine", saw(True)),
        scene("planted", saw(False, "three of two")),
        scene("raises", raises),
        scene("hangs", hangs),
    )
    outcome, lines = await play(demo, plugins, tmp_path)
    assert outcome.different == 3
    seen = {played.scene.name: played.observation for played in outcome.played}
    assert seen["raises"].error == "ConnectionError: nobody there"
    assert seen["hangs"].text == "not over after 0 s"
    assert sum(line.startswith("DIFFERENT") for line in lines) == 3


async def test_only_the_named_scenes_are_played_and_in_the_file(plugins: Plugins, tmp_path: Path) -> None:
    demo = NoBroker(scene("one", saw(True)), scene("two", saw(True)))
    outcome, _ = await play(demo, plugins, tmp_path, "two")
    assert [played.scene.name for played in outcome.played] == ["two"]
    topics = yaml.safe_load(outcome.policy_file.read_text())["policies"]["topics"]
    assert [topic["name"] for topic in topics] == ["demo.two"]


@pytest.mark.seed("S1-125")
async def test_a_changed_policy_is_in_the_file_and_in_force(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_force: list[tuple[str, object]] = []
    put = EmbeddedGateway.set_policies

    def set_policies(gateway: EmbeddedGateway, layers: Sequence[PolicyLayer]) -> int:
        in_force.extend((layer.name, layer.settings["max_message_size"].value) for layer in layers)
        return put(gateway, layers)

    monkeypatch.setattr(EmbeddedGateway, "set_policies", set_policies)

    async def changes(stage: Stage) -> Observation:
        await stage.change_policy({"max_message_size": "1KiB"})
        return Observation(True, "changed")

    outcome, _ = await play(NoBroker(scene("change", changes, max_message_size=10)), plugins, tmp_path)
    assert in_force == [("demo.change", 1024)]
    topic = yaml.safe_load(outcome.policy_file.read_text())["policies"]["topics"][0]
    assert topic == {"name": "demo.change", "max_message_size": "1KiB"}


async def test_a_change_that_the_configuration_refuses_fails_its_scene_alone(
    plugins: Plugins, tmp_path: Path
) -> None:
    async def changes(stage: Stage) -> Observation:
        await stage.change_policy({"max_message_size": -1})
        return Observation(True, "changed")

    outcome, _ = await play(NoBroker(scene("change", changes), scene("fine", saw(True))), plugins, tmp_path)
    assert outcome.different == 1
    assert "max_message_size" in outcome.played[0].observation.error


async def test_overrides_of_a_real_configuration_do_not_reach_the_demo(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("SLUICEGATE__STATE_DIR", str(elsewhere))
    directory = tmp_path / "demo"
    directory.mkdir()
    outcome, _ = await play(NoBroker(scene("one", saw(True))), plugins, directory)
    assert outcome.state_dir == directory / "state"
    assert not elsewhere.exists()


async def test_decisions_that_do_not_come_are_an_empty_list(plugins: Plugins, tmp_path: Path) -> None:
    async def looks(stage: Stage) -> Observation:
        return Observation(not await stage.decisions("would_reject", within_s=0.1), "looked")

    outcome, _ = await play(NoBroker(scene("one", looks)), plugins, tmp_path)
    assert outcome.different == 0


async def test_what_gate_and_clients_log_goes_to_files_and_loggers_are_put_back(
    plugins: Plugins, tmp_path: Path
) -> None:
    ours = logging.getLogger("sluicegate")
    before = ours.handlers[:], ours.level, ours.propagate

    async def logs(stage: Stage) -> Observation:
        logging.getLogger("nobody.special").warning("a word from the client")
        return Observation(True, "logged")

    await play(NoBroker(scene("one", logs)), plugins, tmp_path)
    assert "listening on 127.0.0.1" in (tmp_path / "gateway.log").read_text()
    assert "a word from the client" in (tmp_path / "clients.log").read_text()
    assert (ours.handlers[:], ours.level, ours.propagate) == before
    assert logging.getLogger("nobody").propagate
    assert not logging.getLogger("nobody").handlers


def alone(name: str, play: Callable[[Stage], Awaitable[Observation]], **policies: object) -> Scene:
    """A scene with a gate of its own."""
    return replace(scene(name, play), own=lambda directory: OwnGate(policies, {"max_hold": "3s"}))


async def test_a_scene_with_a_gate_of_its_own_shares_nothing_but_the_log(
    plugins: Plugins, tmp_path: Path
) -> None:
    seen: list[Stage] = []

    async def looks(stage: Stage) -> Observation:
        seen.append(stage)
        return Observation(stage.directory.is_dir(), "looked")

    demo = NoBroker(scene("shared", looks), alone("own", looks, connection_rate_limit="7/s"))
    outcome, _ = await play(demo, plugins, tmp_path)
    assert [played.scene.name for played in outcome.played] == ["shared", "own"]
    assert outcome.different == 0
    shared, own = seen
    assert shared.address != own.address
    assert own.directory == tmp_path / "kafka-own"
    assert own.policies == {"connection_rate_limit": "7/s"}

    told = yaml.safe_load((tmp_path / "kafka-own" / "gateway.yaml").read_text())
    assert told["policies"]["broker"] == {"connection_rate_limit": "7/s"}
    assert [topic["name"] for topic in told["policies"]["topics"]] == ["demo.own"]
    assert (told["brokers"][0]["name"], told["brokers"][0]["max_hold"]) == ("kafka-own", "3s")
    others = yaml.safe_load(outcome.policy_file.read_text())
    assert "broker" not in others["policies"]
    assert told["state_dir"] == others["state_dir"]


async def test_only_scenes_with_gates_of_their_own_start_no_other(plugins: Plugins, tmp_path: Path) -> None:
    demo = NoBroker(scene("shared", saw(True)), alone("own", saw(True), max_message_size="1KiB"))
    outcome, _ = await play(demo, plugins, tmp_path, "own")
    assert [played.scene.name for played in outcome.played] == ["own"]
    assert outcome.policy_file == tmp_path / "kafka-own" / "gateway.yaml"
    assert not (tmp_path / "gateway.yaml").exists()


async def test_metrics_of_plugins_are_told_by_name_and_topic(plugins: Plugins, tmp_path: Path) -> None:
    async def looks(stage: Stage) -> Observation:
        factor = stage.metric("sluicegate_storage_throttle_factor")
        return Observation(factor == 1.0 and stage.metric("no_such_metric") is None, f"{factor}")

    entry = {"storage": {"source": "path", "paths": [str(tmp_path)], "interval": "100ms"}}
    own = OwnGate({"storage_hard_min_free_bytes": "1KiB"}, entry)
    outcome, _ = await play(NoBroker(replace(scene("own", looks), own=lambda _: own)), plugins, tmp_path)
    assert [played.observation.text for played in outcome.played] == ["1.0"]
    assert outcome.different == 0
