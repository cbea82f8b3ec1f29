"""Moves a policy on from observed over canaries to enforced, and back."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sluicegate.broker import PolicyRefusedError
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import Rollout
from sluicegate.config.units import DURATION
from sluicegate.model import ENFORCE, Level, Mode, ModeKind, PolicyValue, parse_mode
from sluicegate.model.mode import HOW_TO_WRITE
from sluicegate.runtime.changing import Wanted
from sluicegate.runtime.rollout_counts import MODE
from sluicegate.runtime.rollouts import Figures, mode_key
from sluicegate.store import Author, Key, Revision

OWN_NAME = "sluicegate"
"""The author of changes that the gateway makes itself."""
_ENOUGH = 0.98
"""Part of the window that counts as all of it: samples do not fall on its ends."""


class NotReadyError(PolicyRefusedError):
    """What is known of a policy does not allow to promote it."""


class Promotion(NamedTuple):
    """What is to be promoted."""

    level: Level
    name: str
    broker: str
    policy: str
    to: str = ""
    """The mode to move on to; empty for the next step."""
    force: bool = False
    """Whether to ask neither for time nor for the budget."""

    @property
    def key(self) -> Key:
        """The key of its mode."""
        return Key(self.level, self.name, f"{MODE}{self.policy}", self.broker)


def next_mode(mode: Mode, settings: Rollout, *, has_canary: bool) -> Mode:
    """The step after a mode."""
    percents = [round(100 * step, 6) for step in settings.steps if has_canary]
    if mode.kind is ModeKind.CANARY and not mode.names:
        percents = [percent for percent in percents if percent > mode.percent]
    return Mode(ModeKind.CANARY, settings.group, percents[0]) if percents else ENFORCE


def promoted(
    asked: Promotion,
    modes: Mapping[Key, PolicyValue],
    fields: PolicyFields,
    settings: Rollout,
    figures: Figures | None,
) -> Wanted:
    """The change that promotes a policy.

    :param asked: with the policy's canonical name.
    :param modes: what file and store set, by the keys of modes.
    :param figures: of the policy in its mode; None if nothing was counted.
    :raises NotReadyError: if it has not been watched for long enough, or exceeds the budget.
    :raises PolicyRefusedError: if there is nothing to promote.
    """
    policy = asked.policy
    where = f"{policy} of {asked.level.label} {asked.name}".rstrip()
    mode = parse_mode(str(modes.get(asked.key, ENFORCE)))
    if mode.enforces:
        remedy = f"`sluicegate policies set` it with {MODE}{policy}=observe to begin a roll-out"
        raise PolicyRefusedError(f"{where} has no mode there, or is enforced already: {remedy}")
    try:
        to = parse_mode(asked.to) if asked.to else None
    except ValueError as error:
        raise PolicyRefusedError(f"{error}: {HOW_TO_WRITE}") from None
    to = to or next_mode(mode, settings, has_canary=policy not in fields.whole_topic)
    if not asked.force and (why := why_not(figures, settings)):
        raise NotReadyError(f"{where}, now {mode}, is not promoted to {to}: {why}")
    return Wanted(asked.key, str(to))


def why_not(figures: Figures | None, settings: Rollout) -> str:
    """Why a policy cannot be promoted yet; empty if it can."""
    window = DURATION.text(settings.window)
    if figures is None or not figures.asked:
        return f"no running gateway has seen anything that it checks: wait for traffic ({window}), or --force"
    if figures.share > settings.budget:
        return f"{summary(figures)}, above the budget of {settings.budget:.2%}: raise the limit, or --force"
    if figures.seconds < settings.window / 1000 * _ENOUGH:
        return f"it was watched for {figures.seconds:.0f} s of {window}: wait, or --force"
    return ""


def summary(figures: Figures) -> str:
    """What a policy did, in words."""
    observed = f"of {figures.asked} operations in {figures.seconds:.0f} s it"
    parts = [f"refused or held {figures.did}"] if figures.did else []
    parts += [f"would have refused or held {figures.would}"] if figures.would or not parts else []
    return f"{observed} {' and '.join(parts)} ({figures.share:.2%})"


def fallback(figures: Figures, settings: Rollout) -> tuple[Wanted, Author]:
    """The change that has a policy only observed again, and why."""
    reason = f"fell back: {summary(figures)}, above the budget of {settings.budget:.2%}"
    return Wanted(mode_key(figures.rule), str(ModeKind.OBSERVE)), Author(OWN_NAME, reason)


def enforced_s(revisions: Iterable[Revision]) -> dict[Key, float]:
    """How long ago, in s, policies were promoted to all, by the keys of their modes."""
    ages: dict[Key, float] = {}
    now = datetime.now(UTC)
    for revision in revisions:
        for change in revision.changes:
            was_on_trial = change.old is not None and change.old != str(ModeKind.ENFORCE)
            if change.key.field.startswith(MODE) and change.new == str(ModeKind.ENFORCE) and was_on_trial:
                age_s = (now - datetime.fromisoformat(revision.at)).total_seconds()
                ages.setdefault(change.key, max(0.0, age_s))
    return ages


def as_row(
    key: Key, mode: str, figures: Figures | None, settings: Rollout, *, has_canary: bool
) -> dict[str, Any]:
    """A policy that is rolled out, as JSON."""
    parsed = parse_mode(mode)
    return {
        "broker": key.broker,
        "level": key.level.label,
        "name": key.name,
        "place": key.target,
        "policy": key.field.removeprefix(MODE),
        "mode": mode,
        "next": "" if parsed.enforces else str(next_mode(parsed, settings, has_canary=has_canary)),
        "seconds": round(figures.seconds, 1) if figures else 0.0,
        "asked": figures.asked if figures else 0,
        "would_refuse": figures.would if figures else 0,
        "refused": figures.did if figures else 0,
        "share": round(figures.share, 6) if figures else 0.0,
        "budget": settings.budget,
        "why_not": "" if parsed.enforces else why_not(figures, settings),
    }
