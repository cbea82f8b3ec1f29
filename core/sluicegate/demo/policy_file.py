"""The demo's policy files, as users write them: one for all brokers, and one for each scene."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from sluicegate.demo.scene import Backend, BrokerDemo, Scene, by_policy


class PolicyFile:
    """A policy file on disk, with its contents.

    :param path: path of the file.
    :param state_dir: state directory of the gateway.
    :param admin_port: port of the gateway's administrative endpoint.
    :param policies: policies at broker level.
    """

    def __init__(
        self, path: Path, state_dir: Path, admin_port: int, policies: Mapping[str, Any] | None = None
    ) -> None:
        self.path = path
        self.state_dir = state_dir
        self.admin_port = admin_port
        self._policies = policies or {}
        self._brokers: list[tuple[str, dict[str, Any]]] = []
        self._topics: dict[str, tuple[str, Scene]] = {}

    def add(
        self, system: str, demo: BrokerDemo, backend: Backend, scenes: Iterable[Scene], name: str = ""
    ) -> None:
        """Add a broker, and the topics of its scenes.

        :param backend: the broker; its entry says where the gateway listens.
        :param name: name of its entry; the system if empty.
        """
        self._brokers.append((demo.label, {"name": name or system, "system": system, **backend.entry}))
        for scene in scenes:
            if scene.topic in self._topics:
                raise ValueError(f"topic {scene.topic!r} is used by two scenes, expected one for each")
            self._topics[scene.topic] = (system, scene)

    def change(self, topic: str, settings: Mapping[str, Any]) -> None:
        """Change the settings of a topic, and write the file."""
        system, scene = self._topics[topic]
        self._topics[topic] = (system, replace(scene, settings=settings))
        self.write()

    def address(self, name: str) -> str:
        """The gateway's address for clients of a broker, host:port."""
        [listen] = [entry["listen"] for _, entry in self._brokers if entry["name"] == name]
        return f"{listen['host']}:{listen['port']}"

    def write(self) -> None:
        """Write the file atomically."""
        partial = self.path.with_suffix(".partial")
        partial.write_text(self.text(), encoding="utf-8")
        partial.replace(self.path)

    def text(self) -> str:
        """The text of the file, with the topics of all brokers grouped by policy."""
        parts = ["# The policies that `sluicegate demo` shows.\n", "brokers:\n"]
        for label, entry in self._brokers:
            parts += [f"  # {label}\n", _item(entry)]
        parts += [
            f"\nstate_dir: {_inline(str(self.state_dir))}\n",
            f"admin: {{ host: 127.0.0.1, port: {self.admin_port} }}\n",
            "decisions: { detail: full }    # a row for each message: the demo judges by them\n",
            "\npolicies:\n" if self._policies or self._topics else "\npolicies: {}\n",
        ]
        if self._policies:
            parts += [
                "  broker:\n",
                *(f"    {key}: {_inline(value)}\n" for key, value in self._policies.items()),
            ]
        if self._topics:
            parts.append("  topics:\n")
        for name in by_policy(scene for _, scene in self._topics.values()):
            for topic, (system, scene) in self._topics.items():
                if scene.name == name:
                    parts += [
                        f"    # {system}: {scene.expected}\n",
                        _item({"name": topic, **scene.settings}, 4),
                    ]
        return "".join(parts)


def _inline(value: object) -> str:
    text: str = yaml.safe_dump(
        value, sort_keys=False, default_flow_style=True, allow_unicode=True, width=9_999
    )
    return text.removesuffix("...\n").strip()


def _item(entry: Mapping[str, Any], indent: int = 2) -> str:
    lines = [f"{key}: {_inline(value)}\n" for key, value in entry.items()]
    return " " * indent + "- " + (" " * (indent + 2)).join(lines)
