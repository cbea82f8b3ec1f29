"""What a front gets of its gateway, without one."""

import ssl
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from sluicegate.broker import Listener
from sluicegate.config.tls import context_for_broker
from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import DecisionSink, GateFaults
from sluicegate.engine.gates import GateCache
from sluicegate.model import PolicySet, TopicName
from sluicegate.runtime.plugins import plugins_of
from sluicegate.testing.gates import compiler_of


class ManualServices:
    """`Services` for tests of a front and its sessions: nothing listens, and nothing runs by itself.

    :param name_of: parses a topic's name, as the driver does.
    :param policies: as in the file, for the whole broker: `{"max_publish_rate": "500/s"}`.
    :param plugins: modules or objects with hook implementations.
    :param sink: where decisions go; a RecordingSink if it is left out.
    :param faults: where faults of checks are counted; without it, the first one fails the test.
    :param budget: bytes that all sessions may hold together; 0 is unlimited.
    """

    broker_tls: ssl.SSLContext | None = None
    broker_tls_renewals = 0

    def __init__(
        self,
        name_of: Callable[[str], TopicName],
        policies: Mapping[str, object] | None = None,
        plugins: Iterable[object] = (),
        *,
        sink: DecisionSink | None = None,
        faults: GateFaults | None = None,
        budget: int = 0,
    ) -> None:
        self._compiler = compiler_of(plugins_of(plugins), policies or {}, name_of, "", sink, faults)
        self.budget = Budget(budget)
        self.listeners: dict[str, Listener] = {}
        """Open listeners by name."""
        self.spawned: list[Coroutine[Any, Any, None]] = []
        """Background work that a test awaits, or closes."""
        self.kept: dict[str, str] = {}
        """What `remember` keeps."""
        self.siblings = 0
        """Other workers of the broker."""
        self.sibling_news: list[tuple[str, Mapping[str, Any]]] = []
        """Kind and content of what siblings are told."""

    @property
    def gates(self) -> GateCache:
        """Gates by topic, compiled as the gateway compiles them."""
        return self._compiler.gates

    @property
    def policies(self) -> PolicySet:
        """The policies in force."""
        return self._compiler.policies

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """A context from a section of the entry; its files are read each time."""
        return context_for_broker(section)

    def wall_ms(self, now_ns: int) -> int:
        """The time in ms, as if the machine had been started in 1970."""
        return now_ns // 1_000_000

    async def listen(self, listener: Listener) -> None:
        """Note a listener as open."""
        self.listeners[listener.name] = listener

    def stop_listening(self, name: str) -> None:
        """Note a listener as closed."""
        self.listeners.pop(name, None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Keep the work for the test."""
        self.spawned.append(work)

    def remember(self, key: str, value: str) -> None:
        """Keep a fact; an empty value forgets it."""
        if value:
            self.kept[key] = value
        else:
            self.kept.pop(key, None)

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix."""
        return {key: value for key, value in self.kept.items() if key.startswith(prefix)}

    def tell_siblings(self, kind: str, content: Mapping[str, Any]) -> None:
        """Note what siblings are told."""
        self.sibling_news.append((kind, content))
