"""The effective policies of one topic as JSON values, for `sluicegate explain` and the admin API alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from sluicegate.broker import BaseDriver
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies, Level, PolicyLayer, Scope, TopicName, version_text
from sluicegate.runtime.reported import reduced_rates, reported_adaptive, reported_budgets, reported_factors

_MOST_UNMATCHED = 20


class Asker(NamedTuple):
    """Whose operations are explained; an empty name is in no scope that names any."""

    principal: str = ""
    client: str = ""
    """Its id, without an address."""
    group: str = ""
    """Subscription or consumer group."""


_NOBODY = Asker()


def capabilities_of(driver: BaseDriver | None) -> Mapping[str, str]:
    """How a kind of broker supports each policy; empty if its driver does not declare it."""
    return driver.capabilities if driver is not None else {}


def unmatched(layers: Iterable[PolicyLayer], config: BrokerConfig) -> list[dict[str, str]]:
    """The layers for all brokers whose names this broker cannot have: `level`, `name` and the `rule`."""
    return [
        {"level": layer.level.label, "name": layer.name, "rule": rule}
        for layer in layers
        if layer.level is not Level.BROKER and not layer.broker
        for rule in (config.rule_of_names(layer.level, layer.name),)
        if rule
    ]


@dataclass(frozen=True)
class BrokerPolicies:
    """The policies of one broker, at one moment."""

    config: BrokerConfig
    """The broker's entry."""
    driver: BaseDriver
    """Of its kind of broker."""
    resolver: Resolver
    """Its policies from file and store."""
    fields: PolicyFields
    """The policy fields of all plugins."""
    facts: Mapping[str, str]
    """What its front keeps."""

    def explain(self, topic: str, asker: Asker = _NOBODY) -> dict[str, Any]:
        """Merge the policies for a topic, and say where each value comes from.

        :param topic: its name, as clients of the broker write it.
        :param asker: whose operations; by default those in no scope.
        :return: `broker`, `system`, `topic`, `namespace`, `version`, `observe_only`; `policies` by field, in
            the order of the plugins' fields and followed by options; `unset`, the policies that no level
            sets; `scopes`, for each one its names under `for`, whether it is `applied` to the asker, and the
            `policies` that it sets; `factors`, `reduced`, `adaptive`, `budgets` as in `reported`; and
            `unmatched`, the policies that can match no topic of the broker.
        """
        name = self.driver.name_of(topic, self.config)
        scopes = self.resolver.scopes(name)
        applied = tuple(scope for scope in scopes if scope.matches(*asker))
        effective = self.resolver.resolve(name, scopes=applied)
        factors = reported_factors(self.facts, effective)
        return {
            "broker": self.config.name,
            "system": self.config.system,
            "topic": effective.topic,
            "namespace": name.namespace,
            "version": version_text(effective.version),
            "observe_only": effective.observe_only,
            "policies": self._settings(effective),
            "unset": [field for field in self.fields.policies if field not in effective.values],
            "scopes": [self._scope(name, scope, is_applied=scope in applied) for scope in scopes],
            "factors": factors,
            "reduced": reduced_rates(factors, effective, self.fields),
            "adaptive": reported_adaptive(self.facts, effective.topic),
            "budgets": reported_budgets(self.facts),
            "unmatched": self._unmatched,
        }

    @cached_property
    def _unmatched(self) -> list[dict[str, str]]:
        return unmatched(self.resolver.policy_set.layers, self.config)[:_MOST_UNMATCHED]

    def _scope(self, topic: TopicName, scope: Scope, *, is_applied: bool) -> dict[str, Any]:
        alone = self.resolver.resolve(topic, scopes=(scope,))
        own = {field: value for field, value in alone.values.items() if alone.owner(field)}
        return {
            "for": scope.as_json(),
            "text": str(scope),
            "applied": is_applied,
            "policies": self._settings(replace(alone, values=own)),
        }

    def _settings(self, effective: EffectivePolicies) -> dict[str, dict[str, Any]]:
        capabilities = capabilities_of(self.driver)
        settings = {}
        for field in (field for field in self.fields.settings if field in effective.values):
            value, origin = effective.values[field], effective.provenance[field]
            settings[field] = {
                "value": value,
                "text": self.fields.text(field, value),
                "level": origin.level.label if origin.level is not None else "",
                "scope": str(origin.scope),
                "source": origin.source.label,
                "location": origin.location,
                "ceiling": origin.ceiling,
                "applies": capabilities.get(field, ""),
            }
        return settings
