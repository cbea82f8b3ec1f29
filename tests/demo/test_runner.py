"""The runner: a scene that raises, that hangs, or that takes its clients' process along is an observation."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.demo.running import demo, planted
from tests.demo.scenes import NoBroker, scene

from sluicegate.demo import player
from sluicegate.demo.player import Task
from sluicegate.demo.ports import RANGE
from sluicegate.demo.scene import Seen, Stage

pytestmark = pytest.mark.slow

SCENES = """
import os
from sluicegate.demo.scene import OwnGateway, Scene
from sluicegate_kafka.demo.show import KafkaDemo


async def raises(stage):
    raise ConnectionError("nobody there")


async def acts(stage):
    return await stage.act("move a mountain")


async def dies(stage):
    os.write(2, b"a word before the end\\\\n")
    os._exit(3)


LIMIT = {"max_message_size": 10}
KafkaDemo.scenes = (
    *(scene for scene in KafkaDemo.scenes if scene.name == "message-size"),
    Scene("raises", "demo.raises", LIMIT, "nothing", raises),
    Scene("acts", "demo.acts", LIMIT, "nothing", acts),
    Scene("dies", "demo.dies", LIMIT, "nothing", dies, own=lambda directory: OwnGateway(LIMIT)),
)
"""


def test_scenes_that_fail_are_reported_and_the_others_are_played(tmp_path: Path) -> None:
    done = demo(
        tmp_path / "kept", "kafka", plant=planted(tmp_path / "plant", SCENES), options=["--no-report"]
    )
    assert done.code == 1, done.printed + done.errors
    assert "Traceback" not in done.errors
    assert done.verdict("message-size") == "ok"
    assert "ConnectionError: nobody there" in done.about("raises")
    assert "ActionError: move a mountain: KeyError: 'move a mountain'" in done.about("acts")
    assert "the scene could not be played" in done.about("dies")
    assert "kafka's clients ended; its last words: a word before the end" in done.about("dies")
    assert done.printed.splitlines()[-1].startswith("3 of 4 observations differ from the policy")
    assert (tmp_path / "kept" / "kafka-dies" / "gateway.log").exists()


def test_no_two_brokers_of_a_gateway_get_the_same_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RANGE, "3100-3120")  # so few that processes that choose without each other meet
    done = demo(tmp_path / "kept", "kafka,pulsar,danube", "message-size", options=["--no-report"])
    assert done.code == 0, done.printed + done.errors
    assert "3 of 3 observations are what the policies say" in done.printed


async def test_a_scene_that_hangs_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    async def hangs(stage: Stage) -> Seen:
        await asyncio.Event().wait()
        raise AssertionError(stage)

    hanging = replace(scene("hangs"), play=hangs)
    task = Task((), "127.0.0.1:1", "http://127.0.0.1:1", ".", {}, 1, patience_s=0.001)
    await player._play(NoBroker(hanging), task, hanging, player._Actions())
    said = json.loads(capsys.readouterr().out)
    assert said["played"] == "hangs"
    assert Seen(**said["seen"]) == Seen(False, "not over after 0 s")


async def test_a_scene_finds_its_stage_and_says_what_it_saw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def looks(stage: Stage) -> Seen:
        stage.change_policy({"max_message_size": 9})
        return Seen(True, f"{stage.topic} in {stage.directory.name}", facts={"attempt": stage.attempt})

    looking = replace(scene("looks"), play=looks)
    task = Task((), "127.0.0.1:1", "http://127.0.0.1:1", str(tmp_path), {"a": 1}, 2, patience_s=60)
    await player._play(NoBroker(looking), task, looking, player._Actions())
    changed, said = map(json.loads, capsys.readouterr().out.splitlines())
    assert changed == {"change": "demo.looks", "settings": {"max_message_size": 9}}
    assert Seen(**said["seen"]) == Seen(True, f"demo.looks in {tmp_path.name}", facts={"attempt": 2})
