"""The effective policies of one topic as JSON values, for `sluicegate explain` and the admin API alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sluicegate.broker import BrokerDriver, OptionalDriver
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies
from sluicegate.runtime.reported import reduced_rates, reported_adaptive, reported_factors


def capabilities_of(driver: BrokerDriver | None) -> Mapping[str, str]:
    """How a kind of broker supports each policy; empty if its driver does not declare it."""
    return cast("OptionalDriver", driver).capabilities if hasattr(driver, "capabilities") else {}


@dataclass(frozen=True, slots=True)
class BrokerPolicies:
    """The policies of one broker, at one moment."""

    config: BrokerConfig
    """The broker's entry."""
    driver: BrokerDriver
    """Of its kind of broker."""
    resolver: Resolver
    """Its policies from file and store."""
    fields: PolicyFields
    """The policy fields of all plugins."""
    facts: Mapping[str, str]
    """What its front keeps."""

    def explain(self, topic: str) -> dict[str, Any]:
        """Merge the policies for a topic, and say where each value comes from.

        :param topic: its name, as clients of the broker write it.
        :return: `broker`, `system`, `topic`, `namespace`, `version`, `observe_only`; `policies` by field, in
            the order of the plugins' fields and followed by options; `unset`, the policies that no level
            sets; and `factors`, `reduced`, `adaptive` as in `reported`.
        """
        name = self.driver.name_of(topic, self.config)
        effective = self.resolver.resolve(name)
        factors = reported_factors(self.facts, effective)
        return {
            "broker": self.config.name,
            "system": self.config.system,
            "topic": effective.topic,
            "namespace": name.namespace,
            "version": effective.version,
            "observe_only": effective.observe_only,
            "policies": self._settings(effective),
            "unset": [field for field in self.fields.policies if field not in effective.values],
            "factors": factors,
            "reduced": reduced_rates(factors, effective, self.fields),
            "adaptive": reported_adaptive(self.facts, effective.topic),
        }

    def _settings(self, effective: EffectivePolicies) -> dict[str, dict[str, Any]]:
        capabilities = capabilities_of(self.driver)
        settings = {}
        for field in (field for field in self.fields.settings if field in effective.values):
            value, found = effective.values[field], effective.provenance[field]
            settings[field] = {
                "value": value,
                "text": self.fields.text(field, value),
                "level": found.level.label if found.level is not None else "",
                "source": found.source.label,
                "location": found.location,
                "ceiling": found.ceiling,
                "applies": capabilities.get(field, ""),
            }
        return settings
