"""The policies in force of one broker as JSON: a gateway serves them, processes of clients apply them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.model import EVERYBODY, LEVELS, PolicyLayer, PolicySet, Scope, Setting, Source, version_text
from sluicegate.store.policy_store import Key, flattened, grouped

_Text: TypeAlias = Annotated[str, Field(max_length=4_096)]
_UNREACHED = {"bootstrap": ("127.0.0.1:1",)}
"""A required key of an entry, which no client uses."""


class ServedSetting(BaseModel):
    """One field as one level sets it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    level: Literal["broker", "namespace", "topic"]
    name: _Text
    broker: _Text
    """Empty if it is set for all brokers."""
    field: _Text
    """Options and ceilings have dotted names, such as `ceiling.max_publish_rate`."""
    value: StrictBool | StrictInt | StrictFloat | StrictStr
    """In base units."""
    source: Literal["default", "file", "store"]
    location: _Text
    locked: StrictBool
    scope: Mapping[Literal["principals", "clients", "groups"], tuple[_Text, ...]] = MappingProxyType({})
    """As `for` of the file; empty for everybody."""

    @property
    def whose(self) -> Scope:
        """Whose operations it is for."""
        named = self.scope
        return Scope(named.get("principals", ()), named.get("clients", ()), named.get("groups", ()))

    @classmethod
    def of(cls, key: Key, setting: Setting, scope: Scope) -> Self:
        """A setting of a layer."""
        return cls.model_validate(
            {
                **key._asdict(),
                "scope": scope.as_json(),
                "level": key.level.label,
                "value": setting.value,
                "source": setting.source.label,
                "location": setting.location,
                "locked": setting.locked,
            }
        )


class ServedPolicies(BaseModel):
    """All policies of one broker at one version; a process that knows fewer fields ignores the others."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    broker: _Text
    system: _Text
    version: str = Field(pattern="^[0-9a-f]{12}$")
    observe_only: StrictBool
    exempt_principals: tuple[_Text, ...]
    exempt_policies: tuple[_Text, ...]
    entry: Mapping[str, Any]
    """The keys of the broker's entry by which clients decide, see `BrokerConfig.client_keys`."""
    settings: tuple[ServedSetting, ...]

    @classmethod
    def of(cls, config: BrokerConfig, policies: PolicySet) -> Self:
        """The policies of a broker.

        :param config: its entry.
        """
        return cls(
            broker=config.name,
            system=config.system,
            version=version_text(policies.version),
            observe_only=policies.observe_only,
            exempt_principals=tuple(sorted(policies.exempt_principals)),
            exempt_policies=tuple(sorted(policies.exempt_policies)),
            entry=config.model_dump(mode="json", include=set(config.client_keys)),
            settings=tuple(
                ServedSetting.of(key, setting, layer.scope)
                for layer in policies.layers
                for key, setting in flattened((layer,))
            ),
        )

    def policy_set(self, fields: PolicyFields) -> PolicySet:
        """The policies, without the fields that are not known here.

        :raises pydantic.ValidationError: if a value does not fit its field.
        """
        layers = (layer for source in Source for layer in self._layers(source, fields))
        return PolicySet(
            int(self.version, 16),
            tuple(layers),
            self.observe_only,
            frozenset(self.exempt_principals),
            frozenset(self.exempt_policies),
        )

    def unknown(self, fields: PolicyFields) -> list[str]:
        """The fields that no plugin of this process declares."""
        return sorted({each.field for each in self.settings}.difference(fields.settings))

    def broker_config(self, model: type[BrokerConfig]) -> BrokerConfig:
        """The broker's entry, as far as clients need it.

        :param model: of its kind of broker.
        :raises pydantic.ValidationError: if a value does not fit its key.
        """
        known = {key: value for key, value in self.entry.items() if key in model.client_keys}
        return model.model_validate({**_UNREACHED, **known, "name": self.broker, "system": self.system})

    def _layers(self, source: Source, fields: PolicyFields) -> Iterable[PolicyLayer]:
        yield from grouped(self._settings(source, fields, EVERYBODY))
        # Of two scopes that are equally specific the later one counts: they stay in their order.
        for scope, settings in groupby(self.settings, lambda each: each.whose):
            if scope:
                layers = grouped(self._settings(source, fields, scope, settings))
                yield from (replace(layer, scope=scope) for layer in layers)

    def _settings(
        self,
        source: Source,
        fields: PolicyFields,
        scope: Scope,
        settings: Iterable[ServedSetting] | None = None,
    ) -> Iterator[tuple[Key, Setting]]:
        known = frozenset(fields.settings)
        for each in self.settings if settings is None else settings:
            if each.source == source.label and each.field in known and each.whose == scope:
                value = fields.parse(each.field, each.value)
                key = Key(LEVELS[each.level], each.name, each.field, each.broker)
                yield key, Setting(value, source, each.location, each.locked)
