"""The demo's policy file: it reads back as it was meant, and changes in one step."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.demo.scenes import NoBroker, scene

from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import Backend

BACKEND = Backend({"bootstrap": ["h:1"], "listen": {"host": "127.0.0.1", "port": 2}})


def test_it_says_what_was_added(tmp_path: Path) -> None:
    of_broker = {"connection_rate_limit": "7/s"}
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path / "a state: dir", 9, of_broker)
    observed = {"max_message_size": "1KiB", "mode": {"max_message_size": "observe"}}
    scenes = (scene("size", **observed), scene("rate", max_publish_rate="5/s"))
    file.add("kafka", NoBroker(*scenes), BACKEND, scenes)
    file.write()
    assert yaml.safe_load(file.path.read_text()) == {
        "brokers": [{"name": "kafka", "system": "kafka", **BACKEND.entry}],
        "state_dir": str(tmp_path / "a state: dir"),
        "admin": {"host": "127.0.0.1", "port": 9},
        "decisions": {"detail": "full"},
        "policies": {
            "broker": of_broker,
            "topics": [
                {"name": "demo.size", **observed},
                {"name": "demo.rate", "max_publish_rate": "5/s"},
            ],
        },
    }
    assert "# nothing at all" in file.text()
    assert "# kafka: nothing happens" in file.text()
    assert file.address("kafka") == "127.0.0.1:2"


@pytest.mark.seed("S1-125")
def test_a_changed_policy_is_in_the_file(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path, 9)
    scenes = (scene("change"), scene("other"))
    file.add("kafka", NoBroker(*scenes), BACKEND, scenes, "mine")
    file.change("demo.change", {"max_message_size": "1KiB"})
    told = yaml.safe_load(file.path.read_text())
    assert [entry["name"] for entry in told["brokers"]] == ["mine"]
    assert told["policies"]["topics"] == [
        {"name": "demo.change", "max_message_size": "1KiB"},
        {"name": "demo.other", "max_message_size": 10},
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["gateway.yaml"]


def test_the_same_policy_of_several_brokers_stands_together(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path, 9)
    for system in ("kafka", "pulsar"):
        scenes = [replace(scene(name), topic=f"{system}.{name}") for name in ("size", "rate")]
        file.add(system, NoBroker(), BACKEND, scenes)
    topics = yaml.safe_load(file.text())["policies"]["topics"]
    assert [topic["name"] for topic in topics] == ["kafka.size", "pulsar.size", "kafka.rate", "pulsar.rate"]


def test_two_scenes_cannot_share_a_topic(tmp_path: Path) -> None:
    scenes = (scene("size"), scene("size"))
    file = PolicyFile(tmp_path / "gateway.yaml", tmp_path, 9)
    with pytest.raises(ValueError, match=r"'demo\.size' is used by two scenes"):
        file.add("kafka", NoBroker(), BACKEND, scenes)


def test_free_ports_are_free_and_neighbours() -> None:
    import socket

    first = free_ports(3)
    for port in range(first, first + 3):
        socket.create_server(("127.0.0.1", port)).close()
