"""Follows policies that are rolled out, and has those fall back that exceed the budget."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import Any

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.runtime.policy_desk import PolicyDesk
from sluicegate.runtime.promoting import fallback
from sluicegate.runtime.rollouts import Figures, Rollouts
from sluicegate.store import Key, StoreError

log = logging.getLogger(__name__)

_PERIOD_S = 1.0


class RolloutWatch:
    """The roll-outs of one gateway.

    :param rollouts: what it follows.
    :param snapshots: gives the last snapshots of the workers.
    """

    def __init__(self, rollouts: Rollouts, snapshots: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self._rollouts = rollouts
        self._snapshots = snapshots
        self._due_s = 0.0
        self._version = ""
        """Of the policies that `_enforced` was read at."""
        self._enforced: dict[Key, float] = {}
        """When policies were promoted to all, monotonic, by the keys of their modes."""
        self._refused: set[Key] = set()
        """Those that cannot fall back, which was logged."""

    async def look(self, at_desk: Callable[[Callable[[PolicyDesk], Any]], Awaitable[Any]]) -> None:
        """Follow the workers' counts; at most once a second.

        :param at_desk: makes a call in the watch's thread.
        """
        now_s = monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + _PERIOD_S
        self._rollouts.follow(self._snapshots(), now_s)
        if not self._rollouts:
            return
        version, enforced_s = await at_desk(self._read)
        if enforced_s is not None:
            self._version = version
            self._enforced = {key: now_s - age_s for key, age_s in enforced_s.items()}
        ages = {key: now_s - at_s for key, at_s in self._enforced.items()}
        for figures in tuple(self._rollouts.exceeding(now_s, ages)):
            await at_desk(lambda desk, figures=figures: self._fall_back(desk, figures))  # type: ignore[misc]

    def _read(self, desk: PolicyDesk) -> tuple[str, dict[Key, float] | None]:
        """The version of the policies, and if it is new, what was promoted to all, and how long ago."""
        if desk.version == self._version:
            return self._version, None
        try:
            return desk.version, desk.rollouts.enforced_s()
        except StoreError:
            return self._version, None  # read again at the next look

    def _fall_back(self, desk: PolicyDesk, figures: Figures) -> None:
        wanted, author = fallback(figures, self._rollouts.settings)
        where = f"{figures.rule.policy} of {wanted.key.level.label} {wanted.key.name}".rstrip()
        try:
            desk.change([wanted], author)
        except (PolicyRefusedError, PolicyUnavailableError, StoreError) as error:
            if wanted.key not in self._refused:
                self._refused.add(wanted.key)
                log.error("%s exceeds its budget and cannot fall back: %s", where, error)
            return
        self._refused.discard(wanted.key)
        self._rollouts.fallbacks += 1
        log.warning("%s is only observed again: %s", where, author.reason)
