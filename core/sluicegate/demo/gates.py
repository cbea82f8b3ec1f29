"""The gates that scenes are played behind: one for all that can share it, one each for the others."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from sluicegate.config.load import Loaded, load
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.scene import Backend, BrokerDemo, OwnGate, Scene
from sluicegate.gateway.embedded import EmbeddedGateway
from sluicegate.gateway.plugins import Plugins
from sluicegate.hooks import hookimpl


class SeenDecisions:
    """A plugin: sees every decision that is not a plain allow, in the decision log's thread."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []

    @hookimpl
    def sluicegate_decisions(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Keep them; the demo is short."""
        self.rows.extend(batch)


class ShownGate:
    """A policy file and the gate that serves it.

    :param directory: where the file goes; exists.
    :param state_dir: where decisions go; all gates may share it.
    :param plugins: what policy fields and brokers there are.
    :param seen: sees the decisions.
    :param policies: of the broker's level.
    """

    def __init__(
        self,
        directory: Path,
        state_dir: Path,
        plugins: Plugins,
        seen: SeenDecisions,
        policies: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.file = PolicyFile(directory / "gateway.yaml", state_dir, policies)
        self.seen = seen
        self._plugins = plugins
        self._running: EmbeddedGateway | None = None

    @property
    def gateway(self) -> EmbeddedGateway:
        """The gate, once it was started."""
        assert self._running is not None  # noqa: S101 - scenes are played behind a running gate
        return self._running

    async def start(self, stack: AsyncExitStack) -> None:
        """Write the file and serve as it says, until the stack is closed.

        :raises ConfigErrors: if the file has mistakes.
        """
        self.file.write()
        loaded = self._load()
        self._running = EmbeddedGateway(loaded.config, loaded.policy_layers, plugins=[self.seen])
        await stack.enter_async_context(self._running)

    def change(self, topic: str, settings: Mapping[str, Any]) -> None:
        """Change the file, and put into force what it says now.

        :raises ConfigErrors: if the file has mistakes then; what was in force stays.
        """
        self.file.change(topic, settings)
        self.gateway.set_policies(self._load().policy_layers)

    def _load(self) -> Loaded:
        # No environment: what overrides an operator's real configuration must not reach the demo.
        return load(self.file.path, self._plugins.policy_models, self._plugins.broker_models, {})


async def own_gate(
    stack: AsyncExitStack, shared: ShownGate, plugins: Plugins, system: str, demo: BrokerDemo, scene: Scene
) -> tuple[ShownGate, OwnGate]:
    """Start a backend and a gate for one scene.

    :param stack: ends both.
    :param shared: the gate of all others, whose state directory and decisions it shares.
    :raises ConfigErrors: if the scene's settings are refused.
    :raises OSError: if a port or a file cannot be had.
    """
    assert scene.own is not None  # noqa: S101 - the caller's choice
    directory = shared.directory / f"{system}-{scene.name}"
    directory.mkdir()
    own = scene.own(directory)
    gate = ShownGate(directory, shared.file.state_dir, plugins, shared.seen, own.policies)
    backend = await stack.enter_async_context(demo.backend())
    told = Backend({**backend.entry, **own.entry}, backend.notes)
    gate.file.add(system, demo, told, [scene], directory.name)
    await gate.start(stack)
    return gate, own
