"""The policies of a process's clients: one engine for all that name the same file or gateway."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from sluicegate.embedded import PolicyEngine
from sluicegate.host.forks import ForkGuard

Policies: TypeAlias = PolicyEngine | str | os.PathLike[str]
"""An application's own engine, a policy file, or the URL of a gateway's admin endpoint."""


@dataclass(slots=True)
class _Shared:
    engine: PolicyEngine
    users: int = 0


@dataclass(slots=True, weakref_slot=True)
class _Engines:
    """The engines that this process has opened by name.

    All clients of a process count towards the same limits, so they use the same engine.
    """

    by_name: dict[tuple[str, str | None], _Shared] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    fork_guard: ForkGuard = field(init=False)

    def __post_init__(self) -> None:
        self.fork_guard = ForkGuard(self.lock, self.forget)

    def forget(self) -> None:
        """In the child of a fork: the engines are the parent's, and clients open their own."""
        self.by_name.clear()


_ENGINES = _Engines()


class OpenPolicies:
    """The policies of one client, until it is closed.

    :param policies: an engine, which stays open; or a file or a URL, whose engine ends with its last client.
    :param system: what the client speaks, such as `kafka`.
    :param broker: the broker's entry in the file or at the gateway; by default the first one.
    :raises ConfigErrors: if the file has errors.
    :raises PolicyUrlError: if the gateway does not tell its policies.
    :raises StoreError: if its store cannot be read.
    :raises KeyError: if it has no such broker.
    :raises ValueError: if the broker is of another system.
    """

    def __init__(self, policies: Policies, system: str, broker: str | None = None) -> None:
        self._name: tuple[str, str | None] | None = None
        if isinstance(policies, PolicyEngine):
            self.engine = policies
        else:
            self._name = (_name_of(os.fspath(policies)), broker)
            self.engine = self._opened(self._name)
        if self.engine.config.system not in (system, "service"):
            self.close()
            raise ValueError(
                f"broker {self.engine.config.name!r} is a {self.engine.config.system} one, and this client "
                f"speaks {system}: name one of its own by `broker`"
            )

    @staticmethod
    def _opened(name: tuple[str, str | None]) -> PolicyEngine:
        with _ENGINES.lock:
            shared = _ENGINES.by_name.get(name)
            if shared is None:
                shared = _ENGINES.by_name[name] = _Shared(_new_engine(*name))
            shared.users += 1
            return shared.engine

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close them if what opens the client of the library raises."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End an engine that was opened for this client, once no other client uses it; idempotent."""
        name, self._name = self._name, None
        if name is None:
            return
        with _ENGINES.lock:
            shared = _ENGINES.by_name.get(name)
            if shared is None or shared.engine is not self.engine:
                return  # in the child of a fork
            shared.users -= 1
            if shared.users:
                return
            del _ENGINES.by_name[name]
        shared.engine.close()


def _name_of(policies: str) -> str:
    return policies if "://" in policies else os.fspath(Path(policies).resolve())


def _new_engine(name: str, broker: str | None) -> PolicyEngine:
    open_it = PolicyEngine.from_url if "://" in name else PolicyEngine.from_file
    return open_it(name, broker, door="client")
