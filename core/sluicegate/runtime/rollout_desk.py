"""The policies that are rolled out, as operators see and promote them."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

from sluicegate.model import PolicyValue, parse_mode
from sluicegate.runtime.changing import Wanted
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.promoting import Promotion, as_row, enforced_s, promoted
from sluicegate.runtime.rollout_counts import MODE, Rule
from sluicegate.runtime.rollouts import Figures, Rollouts
from sluicegate.store import Key
from sluicegate.store.policy_store import values_of

_REVISIONS = 200


class RolloutDesk:
    """Shows roll-outs and plans promotions; its methods block and belong to the watch's thread.

    :param watch: file and store.
    :param rollouts: what the gateway counts; without a gateway, one that follows nothing.
    """

    def __init__(self, watch: PolicyWatch, rollouts: Rollouts) -> None:
        self._watch = watch
        self._rollouts = rollouts

    def rows(self) -> list[dict[str, Any]]:
        """All policies that do not apply to everybody yet, and those that were promoted within the window.

        :return: each with `broker`, `level`, `name`, `policy`, `mode`, `next` (the mode to promote it to),
            `seconds`, `asked`, `would_refuse`, `refused`, `share`, `budget`, and `why_not`: why it cannot be
            promoted now, empty if it can.
        """
        fields, now_s = self._watch.loaded.fields, monotonic()
        set_anywhere = {key.field for key in self._values()}
        window_s = self._rollouts.settings.window / 1000
        recent = {key for key, age_s in self.enforced_s().items() if age_s < window_s}
        rows = []
        for key, mode in sorted(self._modes().items()):
            policy = key.field.removeprefix(MODE)
            if parse_mode(str(mode)).enforces and key not in recent:
                continue
            figures = self._figures(key, str(mode), now_s)
            if figures is None and policy not in set_anywhere:
                continue  # of `mode: observe` for all policies, those that are set nowhere
            has_canary = policy not in fields.whole_topic
            rows.append(as_row(key, str(mode), figures, self._rollouts.settings, has_canary=has_canary))
        return rows

    def promoting(self, asked: Promotion) -> list[Wanted]:
        """The change that promotes a policy.

        :raises NotReadyError: if it has not been watched for long enough, or exceeds the budget.
        :raises PolicyRefusedError: if there is nothing to promote.
        """
        modes, fields = self._modes(), self._watch.loaded.fields
        policy = fields.aliases.get(asked.policy, asked.policy)
        asked = asked._replace(policy=policy)
        figures = self._figures(asked.key, str(modes.get(asked.key, "")), monotonic())
        return [promoted(asked, modes, fields, self._rollouts.settings, figures)]

    def enforced_s(self) -> dict[Key, float]:
        """How long ago, in s, policies were promoted to all, by the keys of their modes."""
        return enforced_s(self._watch.history(_REVISIONS))

    def _figures(self, key: Key, mode: str, now_s: float) -> Figures | None:
        rule = Rule(key.field.removeprefix(MODE), key.level, key.name, key.broker, mode)
        return self._rollouts.of(rule, now_s)

    def _values(self) -> Mapping[Key, PolicyValue]:
        """What file and store set, by which the store goes before the file."""
        watch = self._watch
        return {**watch.file_values, **values_of(watch.store_layers)}

    def _modes(self) -> dict[Key, PolicyValue]:
        values = self._values().items()
        return {key: mode for key, mode in values if key.field.startswith(MODE) and not key.scope}
