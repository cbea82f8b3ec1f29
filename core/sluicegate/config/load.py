"""Reading the file: every mistake in one pass, and what it says as policy layers."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model

from sluicegate.config.consistency import LevelNode, inconsistencies, levels, take_doubles
from sluicegate.config.environment import override, overrides
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.fields import CEILING, OPTIONS, PolicyFields
from sluicegate.config.models import Admin, BrokerConfig, GatewayConfig, PolicyModel
from sluicegate.config.port_conflicts import port_findings
from sluicegate.config.tree import MAX_BYTES, Node, Place, Plain, parse
from sluicegate.config.unreachable import impossible_names
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
    root: Node
    """The file with its places, overrides applied."""
    warnings: tuple[Finding, ...] = ()
    """What the file says that is most likely a mistake."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a file, with mistakes or without."""

    findings: tuple[Finding, ...]
    """All errors and warnings."""
    loaded: Loaded | None
    """None if there are errors."""
    root: Node | None = None
    """The file with its places; None if it is no YAML."""
    brokers: tuple[tuple[int, BrokerConfig], ...] = ()
    """The entries, each with its index; keys with mistakes are left out."""

    @classmethod
    def of(cls, loaded: Loaded) -> "Reading":
        """The reading of a file that has no errors."""
        return cls(loaded.warnings, loaded, loaded.root, tuple(enumerate(loaded.config.brokers)))


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
    reading = read(path, policy_models, broker_models, environ)
    if reading.loaded is None:
        raise ConfigErrors([finding for finding in reading.findings if finding.severity == "error"])
    return reading.loaded


def read(
    path: str | os.PathLike[str],
    policy_models: Iterable[type[PolicyModel]],
    broker_models: Iterable[type[BrokerConfig]],
    environ: Mapping[str, str],
) -> Reading:
    """Read a configuration file as far as its mistakes allow; the parameters are those of `load`."""
    file = os.fspath(path)
    findings: list[Finding] = []
    fields = PolicyFields.of(policy_models)
    models = tuple(broker_models)
    try:
        text = read_text(file)
        root = override(parse(text, file, findings), environ, findings)
    except ConfigErrors as refused:
        return Reading(tuple(refused.errors), None)
    found = tuple(levels(root))
    findings.extend(take_doubles(found, fields))
    made = _validate(root, file_model(fields, models), findings)
    brokers = tuple(enumerate(made.brokers) if made is not None else _sound_brokers(root, models))
    findings.extend(inconsistencies(root, found, fields))
    findings.extend(port_findings(root, made.admin if made is not None else _sound_admin(root), brokers))
    if made is not None or len(brokers) == len(root.listed("brokers")):
        findings.extend(impossible_names(root, [broker for _, broker in brokers]))
    layers = tuple(_layers(found, made, fields)) if made is not None else ()
    findings.extend(_contradictions(root, layers, fields))
    warnings = tuple(finding for finding in findings if finding.severity == "warning")
    if made is None or len(warnings) < len(findings):
        return Reading(tuple(findings), None, root, brokers)
    sections = {name: getattr(made, name) for name in GatewayConfig.model_fields}
    digest = hashlib.sha256(text.encode())
    digest.update(repr(overrides(environ)).encode(errors="surrogateescape"))
    config = GatewayConfig.model_construct(**sections)
    loaded = Loaded(config, layers, digest.hexdigest(), fields, root, warnings)
    return Reading(warnings, loaded, root, brokers)


def plugin_modules(path: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Which modules the file's `plugins:` names; they must be loaded before `load` can check the file.

    :return: the names that can be read; mistakes are left for `load` to report.
    """
    try:
        root = override(parse(read_text(os.fspath(path)), os.fspath(path), []), environ, [])
    except ConfigErrors:
        return ()
    names = (node.scalar for node in root.listed("plugins"))
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

    def refused(message: str, remedy: str, line: int = 0) -> ConfigErrors:
        return ConfigErrors([Finding(file, line, min(line, 1), "", message, remedy)])

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
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte {error.start} is 0x{data[error.start]:02x}"
        raise refused(f"{file!r} is not UTF-8 ({byte})", "save it as UTF-8", line) from None


def _validate(root: Node, model: type[GatewayConfig], errors: list[Finding]) -> GatewayConfig | None:
    if root.entries is None:
        errors.append(root.place.error((), "expected a mapping (key: value)", "begin with 'brokers:'"))
        return None
    try:
        return model.model_validate(root.plain())
    except ValidationError as error:
        errors.extend(translate(error, root, model))
        return None


def _sound_brokers(
    root: Node, broker_models: Iterable[type[BrokerConfig]]
) -> Iterable[tuple[int, BrokerConfig]]:
    """The entries, each as far as it has no mistakes of its own, whatever else is wrong with the file."""
    models = tuple(broker_models) or (BrokerConfig,)
    for index, node in enumerate(root.listed("brokers")):
        sound = (_without_mistakes(node.plain(), model) for model in models)
        if (broker := next((each for each in sound if each is not None), None)) is not None:
            yield index, broker


_STAND_INS = {"name": "unnamed", "bootstrap": ["127.0.0.1:1"], "listen": {"port": 0}}
"""What an entry must have, where its own value is a mistake."""


def _without_mistakes(entry: Plain, model: type[BrokerConfig]) -> BrokerConfig | None:
    """What an entry says under the keys that have no mistake; None if it is not of this kind at all."""
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_url=False) if detail["loc"]}
    if not isinstance(entry, dict) or "system" in wrong:
        return None
    rest = {key: value for key, value in entry.items() if key not in wrong}
    try:
        return model.model_validate({**_STAND_INS, **rest})
    except ValidationError:
        return None  # the values make no sense together


def _sound_admin(root: Node) -> Admin | None:
    admin = root.child("admin")
    try:
        return Admin.model_validate(admin.plain() if admin is not None else {})
    except ValidationError:
        return None


def _layers(found: Iterable[LevelNode], made: Any, fields: PolicyFields) -> Iterable[PolicyLayer]:
    for path, node in found:
        level = getattr(made.policies, str(path[1]))
        if len(path) > 2:
            level = level[path[2]]
        yield PolicyLayer(
            level=_LEVELS[str(path[1])],
            name=getattr(level, "name", ""),
            settings=_settings(level, node, fields),
            ceilings=_ceilings(level, node, fields),
        )


def _contradictions(root: Node, layers: Iterable[PolicyLayer], fields: PolicyFields) -> Iterable[Finding]:
    """Settings of the broker's level that make no sense together."""
    [settings, *_] = [layer.settings for layer in layers if layer.level is Level.BROKER] or [{}]
    broker = root.child("policies", "broker")
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
