"""What the first minute prints where no screen can change."""

from pathlib import Path

import pytest
from tests.demo.first_minute.plays import END, WAIT_S, played
from tests.demo.scenes import NoBroker

from sluicegate.demo.first_minute.judging import judge
from sluicegate.demo.first_minute.play import OVER, Calibrated, Play
from sluicegate.demo.first_minute.screen import Screen, summary
from sluicegate.demo.first_minute.typed_command import Asked, ask
from sluicegate.demo.page import Page
from sluicegate.demo.scene import SharedBroker
from sluicegate.host.children import Child


def test_stages_the_command_and_the_charts_are_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shared: SharedBroker = NoBroker().shared
    play = Play("kafka", shared, "127.0.0.1:1", Child("none", "none", [], tmp_path / "log"), tmp_path, END)
    with Screen(Page(plain=True), "http://127.0.0.1:1") as screen:
        screen.show(play)
        play.calibrated = Calibrated.by([0.003])
        play.record = played()
        play.stage = "the noisy producer is limited"
        play.set_limit = Asked("sluicegate policies set topic noisy", "revision 1\nrunning gateway", 0)
        screen.show(play)
        screen.show(play)
        play.stage = OVER
        screen.show(play)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "-- starting the clients",
        "$ sluicegate policies set topic noisy",
        "revision 1",
        "running gateway",
        "-- the noisy producer is limited",
    ]
    assert "neighbour p50     0 ms, p99     0 ms   noisy    0/s acknowledged" in lines[5]
    assert lines[5].endswith("/s refused: [Error 44]")
    assert lines[7] == "the neighbour's latency in ms: # p50, : p99"
    assert lines[-1].endswith("^ the command")


def test_a_play_in_a_line() -> None:
    assert summary("kafka", judge(played(), 4, WAIT_S), "[Error 44] (aiokafka 0.14.0)") == (
        "kafka: the neighbour's p99 5.0 ms, beside the noise 1,000 ms, after the command 10 ms; the noisy "
        "one 20/s, then 4/s of 4/s, and told: [Error 44] (aiokafka 0.14.0)"
    )


async def test_a_command_is_shown_as_typed_with_what_it_prints(tmp_path: Path) -> None:
    found = await ask(("policies", "get", "topic", "a b"), tmp_path)
    assert found.line == "sluicegate policies get topic 'a b'"
    assert found.code == 1
    assert "gateway.yaml" in found.text
