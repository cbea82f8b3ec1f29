"""A store that lives as long as its process: for tests, demos and gateways without a state directory."""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.store.policy_store import Change, Row, layers_of

_KEPT_CHANGES = 1_000


class MemoryStore:
    """See `PolicyStore`."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Level, str, str], Row] = {}
        self._facts: dict[str, str] = {}
        self._changes: list[Change] = []
        self._version = 0
        self._lock = threading.Lock()

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Everything that is set, and the version it belongs to."""
        with self._lock:
            return self._version, layers_of(self._rows.values())

    def version(self) -> int:
        """Number of the last change."""
        return self._version

    def set(self, level: Level, name: str, field: str, value: PolicyValue, actor: str) -> int:
        """Set one field."""
        with self._lock:
            row = self._rows.get((level, name, field))
            # 1 == True in Python, but not in a policy.
            if row is None or row.value != value or type(row.value) is not type(value):
                self._note(level, name, field, value, actor)
                self._rows[level, name, field] = Row(level, name, field, value, self._version)
            return self._version

    def unset(self, level: Level, name: str, field: str, actor: str) -> int:
        """Take one field away."""
        with self._lock:
            if self._rows.pop((level, name, field), None) is not None:
                self._note(level, name, field, None, actor)
            return self._version

    def _note(self, level: Level, name: str, field: str, value: PolicyValue | None, actor: str) -> None:
        self._version += 1
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._changes.append(Change(self._version, level, name, field, value, actor, at))
        del self._changes[:-_KEPT_CHANGES]

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first."""
        with self._lock:
            return self._changes[::-1][:limit]

    def get_fact(self, key: str) -> str | None:
        """A fact kept with `put_fact`."""
        return self._facts.get(key)

    def put_fact(self, key: str, value: str) -> None:
        """Keep a small fact."""
        self._facts[key] = value

    def claim_fact(self, key: str, value: str) -> str:
        """Keep a fact unless its key is taken."""
        with self._lock:
            return self._facts.setdefault(key, value)

    def facts(self, prefix: str) -> Mapping[str, str]:
        """All facts whose keys begin with a prefix."""
        with self._lock:
            return {key: value for key, value in self._facts.items() if key.startswith(prefix)}

    def close(self) -> None:
        """Nothing to release."""
