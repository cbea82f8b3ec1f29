"""Judges policies that are rolled out: by what they refused, or would have, within the last window."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate.config.models import Rollout
from sluicegate.model import LEVELS, ModeKind, parse_mode
from sluicegate.runtime.rollout_counts import Rule
from sluicegate.store import Key

_SAMPLES = 60
"""Samples kept of a window."""
_LEAST_ASKED = 100
"""Operations below which a policy never falls back: one of ten is no share."""
_LEAST_S = 10.0
"""Time below which it does not, so that one burst is no verdict."""
_COUNTS = ("asked", "would", "did")

_Counts = tuple[int, int, int]


@dataclass(slots=True)
class Figures:
    """What a policy did within the last window, in one mode."""

    rule: Rule
    seconds: float
    """Time that they cover."""
    asked: int
    """Operations that it let pass or refused."""
    would: int
    """Of these, those it would have refused or held."""
    did: int
    """Of these, those it refused or held."""

    @property
    def share(self) -> float:
        """Share of the operations that it refused or held, or would have; 0 if there were none."""
        return min(1.0, (self.would + self.did) / self.asked) if self.asked else 0.0


@dataclass(slots=True)
class _Followed:
    began_s: float
    """When it was first counted in this mode, or promoted to it."""
    by_worker: dict[str, _Counts] = field(default_factory=dict)
    """The last totals of each broker's worker, which begin again with it."""
    total: _Counts = (0, 0, 0)
    samples: deque[tuple[float, _Counts]] = field(default_factory=deque)
    """Totals at the ends of parts of the window."""


class Rollouts:
    """The rules of one gateway that set a mode, followed from snapshots of its workers.

    :param settings: the file's `rollout` section.
    """

    def __init__(self, settings: Rollout) -> None:
        self.settings = settings
        self.fallbacks = 0
        """How often a policy fell back, since the start."""
        self._followed: dict[Rule, _Followed] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, snapshots: Iterable[Mapping[str, Any]], now_s: float) -> None:
        """Take the workers' last counts.

        :param now_s: monotonic time.
        """
        present = set()
        for snapshot in snapshots:
            for row in snapshot["rollouts"]:
                rule = Rule(row["policy"], LEVELS[row["level"]], row["name"], row["broker"], row["mode"])
                present.add(rule)
                followed = self._followed.setdefault(rule, _Followed(now_s))
                _add(followed, snapshot["broker"], tuple(row[key] for key in _COUNTS))
        for rule in self._followed.keys() - present:
            del self._followed[rule]
        for followed in self._followed.values():
            self._sample(followed, now_s)

    def of(self, rule: Rule, now_s: float) -> Figures | None:
        """Of one rule; None if nothing was counted in its mode."""
        return self._figures(rule, now_s) if rule in self._followed else None

    def exceeding(self, now_s: float, promoted_s: Mapping[Key, float]) -> Iterator[Figures]:
        """The policies that must fall back: canaries, and what was promoted to all within the last window.

        :param promoted_s: how long ago modes were set, by their keys.
        """
        window_s = self.settings.window / 1000
        for rule in tuple(self._followed):
            kind = parse_mode(rule.mode).kind
            if kind is ModeKind.OBSERVE:
                continue
            key = mode_key(rule)
            if kind is ModeKind.ENFORCE and promoted_s.get(key, window_s) >= window_s:
                continue
            figures = self._figures(rule, now_s)
            is_known = figures.seconds >= min(_LEAST_S, window_s / 4) and figures.asked >= _LEAST_ASKED
            if is_known and figures.share > self.settings.budget:
                yield figures

    def _sample(self, followed: _Followed, now_s: float) -> None:
        window_s = self.settings.window / 1000
        samples = followed.samples
        if not samples or now_s - samples[-1][0] >= window_s / _SAMPLES:
            samples.append((now_s, followed.total))
        while len(samples) > 1 and samples[1][0] <= now_s - window_s:
            samples.popleft()

    def _figures(self, rule: Rule, now_s: float) -> Figures:
        followed = self._followed[rule]
        since_s, before = followed.samples[0] if followed.samples else (followed.began_s, (0, 0, 0))
        asked, would, did = (now - old for now, old in zip(followed.total, before, strict=True))
        return Figures(rule, now_s - since_s, asked, would, did)


def mode_key(rule: Rule) -> Key:
    """The key of the setting that gives a rule its mode."""
    return Key(rule.level, rule.name, f"mode.{rule.policy}", rule.broker)


def _add(followed: _Followed, worker: str, now: tuple[int, ...]) -> None:
    before = followed.by_worker.get(worker, (0, 0, 0))
    if now[0] < before[0]:
        before = (0, 0, 0)  # a new worker
    asked, would, did = (
        total + new - old for total, new, old in zip(followed.total, now, before, strict=True)
    )
    followed.total = (asked, would, did)
    followed.by_worker[worker] = (now[0], now[1], now[2])
