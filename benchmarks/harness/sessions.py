"""Sessions of broker rooms without a gateway: bytes go in, slices are timed; no broker and no socket."""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from benchmarks.harness.gates import gate_cache
from sluicegate.broker import Ask, BaseSession, Command, Dial, Listener, NextTurn, WakeAt
from sluicegate.config.tls import context_for_broker
from sluicegate.engine.budget import Budget
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source
from sluicegate.testing import NullSink

NOW_NS = 1_000_000_000_000
_MS = 1e6


class Services:
    """What the gateway gives to a front (`broker.Services`), as far as sessions use it."""

    def __init__(self, policies: Mapping[str, PolicyValue]) -> None:
        settings = {name: Setting(value, Source.FILE, "benchmark") for name, value in policies.items()}
        self.policies = PolicySet(1, (PolicyLayer(Level.BROKER, "", settings),))
        self.gates = gate_cache(policies, NullSink())
        self.budget = Budget(2**31)
        self.broker_tls = None
        self.broker_tls_renewals = 0
        self.siblings = 0
        self.tls_for = context_for_broker

    def wall_ms(self, now_ns: int) -> int:
        """A clock that stands still."""
        return now_ns // 1_000_000

    async def listen(self, listener: Listener) -> None:
        """No sockets here."""

    def stop_listening(self, name: str) -> None:
        """No sockets here."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Nothing runs beside."""
        work.close()

    def remember(self, key: str, value: str) -> None:
        """Nothing is kept."""

    def tell_siblings(self, kind: str, content: Mapping[str, Any]) -> None:
        """There are none."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """Nothing was kept."""
        return {}


class Timed:
    """Gives a session bytes, then turns and wake-ups until it asks for no more, and times each by CPU.

    :param session: of any room.
    """

    def __init__(self, session: BaseSession) -> None:
        self._session = session
        self._commands: list[Command] = []
        self._now_ns = NOW_NS
        self.slices_ms: list[float] = []
        """CPU time of each slice."""

    def client(self, data: bytes, *, goes_on: bool = True) -> None:
        """Bytes from the client, and all slices that follow."""
        self._time(self._session.receive_client, data)
        if goes_on:
            self.go_on()

    def broker(self, data: bytes) -> None:
        """Bytes from the broker, and all slices that follow."""
        self._time(self._session.receive_upstream, data)
        self.go_on()

    def later(self, seconds: float) -> None:
        """Turn the clock on."""
        self._now_ns += int(seconds * 1e9)

    def forget(self) -> None:
        """What was measured so far was only to get there."""
        self.slices_ms.clear()

    def go_on(self) -> None:
        """Do what the session asks for."""
        while self._commands:
            commands, self._commands = self._commands, []
            wake_ns = 0
            for command in commands:
                if isinstance(command, WakeAt):
                    wake_ns = command.at_ns
                elif isinstance(command, Ask):
                    answer = None if isinstance(command.question, NextTurn) else LookupError("no front")
                    self._time(self._session.answered, command.question, answer)
                elif isinstance(command, Dial):
                    self._time(self._session.dialled)
            if wake_ns:
                self._now_ns = max(self._now_ns, wake_ns)
                self._wake()

    def _wake(self) -> None:
        began = time.thread_time_ns()
        commands = self._session.wake(self._now_ns, False)
        self.slices_ms.append((time.thread_time_ns() - began) / _MS)
        self._commands += commands

    def _time(self, call: Callable[..., Sequence[Command]], *arguments: object) -> None:
        began = time.thread_time_ns()
        commands = call(*arguments, self._now_ns)
        self.slices_ms.append((time.thread_time_ns() - began) / _MS)
        self._commands += commands
