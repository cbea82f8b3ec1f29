"""Changes of a store, written shortly."""

from collections.abc import Mapping

from sluicegate.model import Level, PolicyValue
from sluicegate.store import Edit, Key


def edits(level: Level, name: str, changes: Mapping[str, PolicyValue | None], broker: str = "") -> list[Edit]:
    """Edits of one namespace, one topic or the whole broker."""
    return [Edit(Key(level, name, field, broker), value) for field, value in changes.items()]
