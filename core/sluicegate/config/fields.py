"""Merges the policy fields of all plugins and builds the models of the `policies:` section from them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sluicegate.config.asking import fields_of
from sluicegate.config.models import Contradiction, OnUnknown, PolicyModel, Strict
from sluicegate.config.scopes import FOR, ScopeNames
from sluicegate.config.units import DELAY, DURATION, Unit, refuse
from sluicegate.model import ModeKind, PolicyValue, Scope, parse_mode
from sluicegate.model.mode import HOW_TO_WRITE

OPTIONS = ("on_limit", "mode", "on_unknown")
"""Options of policies; their settings have dotted names such as `on_limit.max_publish_rate`."""

CEILING = "ceiling."
"""Prefix of the settings that are ceilings."""

_SHARED_OPTIONS = ("ceiling", "on_unknown")
"""Options that change a limit itself, for all who share it."""


_make: Any = create_model
"""Untyped, because the overloads of `create_model` do not accept types built at run time."""


def _canonical_mode(value: object) -> object:
    if not isinstance(value, str):
        raise refuse(f"{value!r} is no mode", HOW_TO_WRITE)
    try:
        return str(parse_mode(value))
    except ValueError as error:
        raise refuse(str(error), HOW_TO_WRITE) from None


def _without_canary(value: str) -> str:
    if parse_mode(value).kind is ModeKind.CANARY:
        raise refuse(
            f"{value!r} is for policies that treat clients differently, this one cannot",
            "write 'observe' or 'enforce'",
        )
    return value


_MODE_PATTERN = r"^\s*(observe|enforce|canary\s+\S.*?)\s*$"
_Mode: TypeAlias = Annotated[str, BeforeValidator(_canonical_mode), Field(pattern=_MODE_PATTERN)]
_WholeMode: TypeAlias = Annotated[_Mode, AfterValidator(_without_canary)]


class _ModeMap(Strict):
    """`mode`: one for every policy, or a map by policy."""

    whole_topic: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: object) -> object:
        if isinstance(data, dict):
            return data
        mode = str(_canonical_mode(data))
        of_whole = str(ModeKind.OBSERVE) if parse_mode(mode).kind is ModeKind.CANARY else mode
        return {name: of_whole if name in cls.whole_topic else mode for name in cls.model_fields}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        by_policy = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "pattern": _MODE_PATTERN}, dict(by_policy)]}


@dataclass(frozen=True)
class PolicyFields:
    """The merged policy field declarations of all plugins."""

    models: tuple[type[PolicyModel], ...]
    infos: Mapping[str, FieldInfo]
    """Declaration by canonical field name, in the order of the plugins."""
    aliases: Mapping[str, str]
    on_limit_actions: Mapping[str, tuple[str, ...]]
    on_unknown_policies: frozenset[str]
    parameters: frozenset[str]
    broker_only: frozenset[str]
    whole_topic: frozenset[str]
    unscoped: frozenset[str]
    """Fields that no scope can set."""
    scoped_by_groups: frozenset[str]
    defaults: Mapping[str, PolicyValue]
    _contradicting: tuple[tuple[Callable[..., Iterable[Contradiction]], frozenset[str] | None], ...]
    """The models' `contradictions`, each with its `fields_of`."""
    _adapters: dict[str, TypeAdapter[Any]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, models: Iterable[type[PolicyModel]]) -> "PolicyFields":
        """Merge the models of all plugins.

        :raises ValueError: if two models declare the same field or alias.
        """
        return _merged(tuple(models))

    def defaults_with(self, own: Mapping[str, PolicyValue]) -> Mapping[str, PolicyValue]:
        """The values of fields that no level sets.

        :param own: `BrokerConfig.policy_defaults` of the kind of broker; these take precedence.
        """
        return {**self.defaults, **own}

    @property
    def policies(self) -> tuple[str, ...]:
        """Fields that are policies, as opposed to parameters of other policies."""
        return tuple(name for name in self.infos if name not in self.parameters)

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Every valid setting name, including dotted options."""
        return (
            *self.infos,
            *(f"on_limit.{name}" for name in self.on_limit_actions),
            *(f"mode.{name}" for name in self.policies),
            *(f"on_unknown.{name}" for name in sorted(self.on_unknown_policies)),
            *(f"{CEILING}{name}" for name in self.infos if self.takes_ceiling(name)),
        )

    def is_for_broker(self, name: str) -> bool:
        """True for a setting that only the broker level has; namespaces and topics refuse it.

        They may have the other options of a limit that all topics share: what happens to their own messages
        at the limit, and to whom that applies.
        """
        option, _, policy = self.aliases.get(name, name).rpartition(".")
        policy = self.aliases.get(policy, policy)
        has_option = not option or (option in _SHARED_OPTIONS and f"{option}.{policy}" in self.settings)
        return policy in self.broker_only and has_option

    def takes_scope(self, name: str, scope: Scope) -> bool:
        """Whether a setting, option or not, can be set for some clients alone."""
        policy = name.rpartition(".")[2]
        policy = self.aliases.get(policy, policy)
        by_groups = policy in self.scoped_by_groups and bool(scope.principals or scope.clients)
        return not scope or not (policy in self.unscoped or by_groups)

    def names_of(self, name: str) -> tuple[str, ...]:
        """All names of a field: the canonical one, then its aliases."""
        return (name, *(alias for alias, canonical in self.aliases.items() if canonical == name))

    def unit(self, name: str) -> Unit | None:
        """The unit of a field; None for choices, switches and unknown names."""
        return _unit(self.infos[name].rebuild_annotation()) if name in self.infos else None

    def text(self, name: str, value: PolicyValue) -> str:
        """A value as people write it: `10MiB`, `500/s`, `unlimited`, `true`."""
        unit = self.unit(name)
        if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
            if value:
                return unit.text(value)
            return "none" if unit in (DELAY, DURATION) else "unlimited"
        return str(value).lower() if isinstance(value, bool) else str(value)

    def parse(self, name: str, value: object) -> PolicyValue:
        """Validate one value for one setting. Everything that writes to the store must call this first.

        :param name: canonical name or alias; options with their dots.
        :return: the value in base units.
        :raises KeyError: if no plugin declares the name.
        :raises pydantic.ValidationError: if the value is invalid.
        """
        name = self.aliases.get(name, name)
        if name not in self._adapters:
            self._adapters[name] = TypeAdapter(self._annotation(name))
        parsed: PolicyValue = self._adapters[name].validate_python(value)
        return parsed

    def contradictions(self, values: Mapping[str, PolicyValue]) -> Iterable[Contradiction]:
        """Find conflicting fields at broker level.

        :param values: the values set there, by canonical name.
        """
        merged = {**self.defaults, **values}
        for find, fields in self._contradicting:
            if fields is None or not fields.isdisjoint(values):
                yield from find(merged)

    def _annotation(self, name: str) -> Any:
        option, _, policy = name.partition(".")
        if not policy:
            return _without_none(self.infos[name].rebuild_annotation())
        if name not in self.settings:
            raise KeyError(name)
        if option == "ceiling":
            return Annotated[_without_none(self.infos[policy].rebuild_annotation()), Field(gt=0)]
        if option == "mode":
            return self._mode(policy)
        return Literal[self.on_limit_actions[policy]] if option == "on_limit" else OnUnknown

    def level_model(self) -> type[PolicyModel]:
        """Build the model of one level: all fields, `ceiling`, `locked` and the options."""
        ceilings = {name: info for name, info in self.infos.items() if self.takes_ceiling(name)}
        actions = {name: Literal[allowed] for name, allowed in self.on_limit_actions.items()}
        modes = {name: self._mode(name) for name in self.policies}
        unknowns = dict.fromkeys(sorted(self.on_unknown_policies), OnUnknown)
        ceiling = _make(
            "Ceiling",
            __base__=PolicyModel,
            __doc__="Limits that lower levels can tighten but not loosen.",
            **{name: (info.rebuild_annotation(), Field(default=None)) for name, info in ceilings.items()},
        )
        ceiling.described_by = self.models
        ceiling.aliases = {alias: name for alias, name in self.aliases.items() if name in ceilings}
        on_limit = _map("OnLimit", Strict, actions, "What happens at the limit, by policy.")
        mode: Any = _map("Modes", _ModeMap, modes, "How far policies are rolled out: all, or by policy.")
        mode.whole_topic = self.whole_topic
        on_unknown = _map("OnUnknown", Strict, unknowns, "What holds while data is missing, by policy.")
        names: Any = Literal[self.settings] if self.infos else str
        level = _make(
            "PolicyLevel",
            __base__=self.models or PolicyModel,
            __doc__="Policies of one level; unset fields are inherited, 0 is unlimited.",
            ceiling=(ceiling | None, Field(default=None, description=ceiling.__doc__)),
            locked=(
                tuple[names, ...],
                Field(default=(), description="Fields set here that the store cannot override."),
            ),
            on_limit=(on_limit | None, Field(default=None, description=on_limit.__doc__)),
            mode=(mode | None, Field(default=None, description=mode.__doc__)),
            on_unknown=(on_unknown | None, Field(default=None, description=on_unknown.__doc__)),
        )
        level.aliases = self.aliases
        made: type[PolicyModel] = level
        return made

    def _mode(self, policy: str) -> Any:
        return _WholeMode if policy in self.whole_topic else _Mode

    def takes_ceiling(self, name: str) -> bool:
        """True for limits: numbers where a smaller value is stricter."""
        return self.unit(name) is not None and name not in self.parameters

    def policies_model(self) -> type[Strict]:
        """The model of the whole `policies:` section."""
        return _policies_model(self.models)


@lru_cache(maxsize=4)
def _merged(models: tuple[type[PolicyModel], ...]) -> PolicyFields:
    """Merge the models. Cached, as a file is read again each time that it changes."""
    infos: dict[str, FieldInfo] = {}
    aliases: dict[str, str] = {}
    for model in models:
        for name, info in model.model_fields.items():
            if name in infos:
                raise ValueError(
                    f"policy field {name!r} is declared twice, the second time by {model.__qualname__}"
                )
            infos[name] = info
        aliases.update(model.aliases)
    if clash := aliases.keys() & infos.keys():
        raise ValueError(f"policy aliases must not also be field names: {', '.join(sorted(clash))}")
    return PolicyFields(
        models=models,
        infos=infos,
        aliases=aliases,
        on_limit_actions={k: v for model in models for k, v in model.on_limit_actions.items()},
        on_unknown_policies=frozenset().union(*(model.on_unknown_policies for model in models)),
        parameters=frozenset().union(*(model.parameters for model in models)),
        broker_only=frozenset().union(*(model.broker_only for model in models)),
        whole_topic=frozenset().union(*(model.whole_topic for model in models)),
        unscoped=frozenset().union(
            *(model.unscoped | model.whole_topic | model.broker_only for model in models)
        ),
        scoped_by_groups=frozenset().union(*(model.scoped_by_groups for model in models)),
        defaults={k: v for model in models for k, v in model.defaults.items()},
        _contradicting=tuple((model.contradictions, fields_of(model.contradictions)) for model in models),
    )


@lru_cache(maxsize=4)
def _policies_model(models: tuple[type[PolicyModel], ...]) -> type[Strict]:
    """Build the model of `policies:`. Cached, because building it takes pydantic about 50 ms."""
    fields = PolicyFields.of(models)
    level = fields.level_model()

    def entry(kind: str, **keys: Any) -> Any:
        model: Any = _make(f"{kind}Policies", __base__=level, **keys)
        model.aliases = fields.aliases
        return model

    def named(kind: str) -> Any:
        text = f"{kind}, exact or with `*` for any characters; no spaces."
        name = (str, Field(pattern=r"^\S+$", description=text))
        return entry(kind, name=name, **{FOR: (ScopeNames | None, Field(default=None, description=whom))})

    whom = "Whose operations the policies are for; everybody's if unset."
    scope: Any = entry("Scope", **{FOR: (ScopeNames, Field(description=whom.partition(";")[0] + "."))})

    namespace: Any = named("Namespace")
    topic: Any = named("Topic")
    made: type[Strict] = _make(
        "Policies",
        __base__=Strict,
        __doc__="Policies by level; a field that is not set is inherited from the level above.",
        broker=(level | None, Field(default=None, description="What holds for every topic.")),
        scopes=(
            tuple[scope, ...],
            Field(default=(), description="What holds for the operations of some clients on every topic."),
        ),
        namespaces=(tuple[namespace, ...], Field(default=(), description="Policies by namespace.")),
        topics=(tuple[topic, ...], Field(default=(), description="Policies by topic.")),
    )
    return made


def _map(name: str, base: type[Strict], types: Mapping[str, Any], doc: str) -> type[Strict]:
    fields: dict[str, Any] = {key: (kind | None, None) for key, kind in types.items()}
    made: type[Strict] = _make(name, __base__=base, __doc__=doc, **fields)
    return made


def _unit(annotation: Any) -> Unit | None:
    for part in get_args(annotation):
        if isinstance(part, Unit):
            return part
        if (unit := _unit(part)) is not None:
            return unit
    return None


def _without_none(annotation: Any) -> Any:
    parts = [part for part in get_args(annotation) if part is not type(None)]
    return parts[0] if type(None) in get_args(annotation) and len(parts) == 1 else annotation


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that occur in a field's annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]
