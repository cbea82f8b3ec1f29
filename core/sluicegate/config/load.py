"""Reading the file: every mistake in one pass, and what it says as policy layers."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, create_model

from sluicegate.config.consistency import inconsistencies, levels, take_doubles
from sluicegate.config.environment import override, overrides
from sluicegate.config.errors import ConfigError, ConfigErrors
from sluicegate.config.fields import CEILING, OPTIONS, PolicyFields
from sluicegate.config.models import BrokerConfig, GatewayConfig, PolicyModel
from sluicegate.config.tree import MAX_BYTES, Node, Place, parse
from sluicegate.config.validation import translate
from sluicegate.model import Level, PolicyLayer, Setting, Source

_LEVELS = {"broker": Level.BROKER, "namespaces": Level.NAMESPACE, "topics": Level.TOPIC}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that was read without an error."""

    config: GatewayConfig
    policy_layers: tuple[PolicyLayer, ...]
    """What the file says about policies, source FILE, with locations such as `gateway.yaml:12`."""
    text_digest: str
    """Equal iff the file and the overriding variables are unchanged."""
    fields: PolicyFields
    """The policy fields it was read with."""


def load(
    path: str | os.PathLike[str],
    policy_models: Iterable[type[PolicyModel]],
    broker_models: Iterable[type[BrokerConfig]],
    environ: Mapping[str, str],
) -> Loaded:
    """Read and check a configuration file.

    :param path: the file, at most 1 MiB of UTF-8.
    :param policy_models: policy fields of all plugins.
    :param broker_models: configuration models of all broker drivers.
    :param environ: environment; variables that begin with `SLUICEGATE__` override the file.
    :raises ConfigErrors: with every mistake that was found; nothing is applied.
    """
    file = os.fspath(path)
    text = read_text(file)
    errors: list[ConfigError] = []
    fields = PolicyFields.of(policy_models)
    model = file_model(fields, broker_models)
    root = override(parse(text, file, errors), environ, errors)
    errors.extend(take_doubles(root, fields))
    made = _validate(root, model, errors)
    errors.extend(inconsistencies(root, fields))
    layers = tuple(_layers(root, made, fields)) if made is not None and not errors else ()
    errors.extend(_contradictions(root, layers, fields))
    if errors or made is None:
        raise ConfigErrors(errors)
    sections = {name: getattr(made, name) for name in GatewayConfig.model_fields}
    digest = hashlib.sha256(text.encode())
    digest.update(repr(overrides(environ)).encode(errors="surrogateescape"))
    return Loaded(
        config=GatewayConfig.model_construct(**sections),
        policy_layers=layers,
        text_digest=digest.hexdigest(),
        fields=fields,
    )


def plugin_modules(path: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Which modules the file's `plugins:` names; they must be loaded before `load` can check the file.

    :return: the names that can be read; mistakes are left for `load` to report.
    """
    try:
        root = override(parse(read_text(os.fspath(path)), os.fspath(path), []), environ, [])
    except ConfigErrors:
        return ()
    plugins = root.child("plugins")
    names = (node.scalar for node in ((plugins.items or ()) if plugins else ()))
    return tuple(name for name in names if isinstance(name, str))


def file_model(fields: PolicyFields, broker_models: Iterable[type[BrokerConfig]]) -> type[GatewayConfig]:
    """The model of the whole file, with what plugins add to it."""
    brokers = tuple(broker_models)
    broker: Any = BrokerConfig
    if len(brokers) == 1:
        broker = brokers[0]
    elif brokers:
        union: Any = brokers[0]
        for each in brokers[1:]:
            union = union | each
        broker = Annotated[union, Field(discriminator="system")]
    make: Any = create_model  # its overloads cannot know types that are made at run time
    made: type[GatewayConfig] = make(
        "GatewayFile",
        __base__=GatewayConfig,
        __doc__="Sluicegate's configuration file.",
        brokers=(
            tuple[broker, ...],
            Field(min_length=1, description=GatewayConfig.model_fields["brokers"].description),
        ),
        policies=(
            fields.policies_model() | None,
            Field(default=None, description="Policies by level, merged field by field."),
        ),
    )
    return made


def read_text(file: str) -> str:
    """Read a file of at most 1 MiB of UTF-8.

    :raises ConfigErrors: if it cannot be read, or is something else.
    """

    def refused(message: str, remedy: str = "") -> ConfigErrors:
        return ConfigErrors([ConfigError(file, 0, 0, "", message, remedy)])

    try:
        with FilePath(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise refused(
            f"cannot read {file!r}: {error.strerror}", "check the path and its permissions"
        ) from None
    if len(data) > MAX_BYTES:
        raise refused(f"{file!r} is larger than {MAX_BYTES} bytes", "is it the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refused(f"{file!r} is not UTF-8 (byte {error.start})", "save it as UTF-8") from None


def _validate(root: Node, model: type[BaseModel], errors: list[ConfigError]) -> BaseModel | None:
    if root.entries is None:
        errors.append(root.place.error((), "expected a mapping (key: value)", "begin with 'brokers:'"))
        return None
    try:
        return model.model_validate(root.plain())
    except ValidationError as error:
        errors.extend(translate(error, root, model))
        return None


def _layers(root: Node, made: Any, fields: PolicyFields) -> Iterable[PolicyLayer]:
    for path, node in levels(root):
        level = getattr(made.policies, str(path[1]))
        if len(path) > 2:
            level = level[path[2]]
        yield PolicyLayer(
            level=_LEVELS[str(path[1])],
            name=getattr(level, "name", ""),
            settings=_settings(level, node, fields),
            ceilings=_ceilings(level, node, fields),
        )


def _contradictions(root: Node, layers: Iterable[PolicyLayer], fields: PolicyFields) -> Iterable[ConfigError]:
    """Settings of the broker's level that make no sense together."""
    [settings, *_] = [layer.settings for layer in layers if layer.level is Level.BROKER] or [{}]
    policies = root.child("policies")
    broker = policies.child("broker") if policies is not None else None
    if broker is None:
        return
    for found in fields.contradictions({name: setting.value for name, setting in settings.items()}):
        written = next((key for key in fields.names_of(found.field) if broker.key(key) is not None), None)
        place = broker.key(written) if written is not None else None
        path = ("policies", "broker", written or found.field)
        yield (place or broker.place).error(path, found.problem, found.remedy)


def _settings(level: Any, node: Node, fields: PolicyFields) -> dict[str, Setting]:
    settings = {
        name: Setting(
            getattr(level, name), Source.FILE, _location(node, name, fields), locked=name in level.locked
        )
        for name in fields.infos
        if getattr(level, name) is not None
    }
    for option in OPTIONS:
        chosen = getattr(level, option)
        where = node.child(option)
        if chosen is None or where is None:
            continue
        for policy, value in chosen:
            if value is not None:
                name = f"{option}.{policy}"
                place = where.key(policy) or node.key(option) or where.place
                settings[name] = Setting(value, Source.FILE, locate_text(place), locked=name in level.locked)
    return settings


def _ceilings(level: Any, node: Node, fields: PolicyFields) -> dict[str, Setting]:
    where = node.child("ceiling")
    if level.ceiling is None or where is None:
        return {}
    return {
        name: Setting(
            value, Source.FILE, _location(where, name, fields), locked=f"{CEILING}{name}" in level.locked
        )
        for name, value in level.ceiling
        if value is not None
    }


def _location(node: Node, name: str, fields: PolicyFields) -> str:
    places = [place for each in fields.names_of(name) if (place := node.key(each)) is not None]
    return locate_text(places[0] if places else node.place)


def locate_text(place: Place) -> str:
    """Where a setting stands, as provenance shows it: `gateway.yaml:12`, or the variable's name."""
    name = place.source.name
    return name if name.startswith("SLUICEGATE__") else f"{os.path.basename(name)}:{place.line + 1}"
