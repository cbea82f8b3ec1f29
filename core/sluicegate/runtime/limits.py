"""The limits that policies set, in the units of metrics, and what factors leave of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sluicegate.config.fields import PolicyFields
from sluicegate.config.units import DELAY, DURATION
from sluicegate.engine.factors import Factors
from sluicegate.engine.quota import Quota
from sluicegate.model import EffectivePolicies, Mode, PolicySet

BY_DEFAULT = "default"
"""In place of the level of a limit that no level sets."""
PRINCIPAL_QUOTAS = ("principal_publish_quota", "principal_publish_quota_bytes")


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit that a level sets or that holds by default; 0 (unlimited) is none."""

    policy: str
    value: float
    """Messages or bytes per second, bytes, a count, or seconds."""
    level: str
    """`broker`, `namespace` or `topic`; `default` where none sets it."""
    source: str
    """`file`, `store` or `default`."""
    mode: Mode
    """To whom it applies."""


class Limits:
    """Gives the limits of topics, of a broker and of principals.

    :param fields: the policies' declarations.
    :param resolve: gives the effective policies of a topic.
    :param broker: gives those of the broker level.
    :param policies: gives the policies now in force.
    :param quota: gives a principal's publish quota.
    :param factors: of all plugins.
    """

    def __init__(
        self,
        fields: PolicyFields,
        resolve: Callable[[str], EffectivePolicies],
        broker: Callable[[], EffectivePolicies],
        policies: Callable[[], PolicySet],
        quota: Callable[[str], Quota | None],
        factors: Factors,
    ) -> None:
        self._scales = {
            name: 0.001 if fields.unit(name) in (DELAY, DURATION) else 1.0
            for name in fields.infos
            if fields.takes_ceiling(name)
        }
        self._broker_only = fields.broker_only
        self.resolve = resolve
        self.broker = broker
        self.policies = policies
        self.quota = quota
        self.factors = factors

    @property
    def version(self) -> int:
        """Version of the policies in force."""
        return self.policies().version

    def of_topic(self, policies: EffectivePolicies) -> tuple[Limit, ...]:
        """The limits that levels set for one topic, without those that all topics share."""
        return tuple(
            limit
            for limit in self._of(policies)
            if limit.level != BY_DEFAULT and limit.policy not in self._broker_only
        )

    def of_broker(self, policies: EffectivePolicies) -> tuple[Limit, ...]:
        """The limits of the broker level: what topics inherit, by default too, and what they share."""
        return tuple(self._of(policies))

    def _of(self, policies: EffectivePolicies) -> Iterable[Limit]:
        for policy, value in policies.values.items():
            scale = self._scales.get(policy)
            made = policies.provenance.get(policy)
            if scale is None or made is None or not value:
                continue
            level = BY_DEFAULT if made.level is None else made.level.label
            source = made.source.label
            yield Limit(policy, float(value) * scale, level, source, policies.mode(policy))
