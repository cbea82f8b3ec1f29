"""Reads the configuration file: reports every error in one pass and returns its policies."""

import gc
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path as FilePath
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import Field, ValidationError, create_model

from sluicegate.config.consistency import (
    LevelNode,
    impossible_names,
    impossible_principals,
    inconsistencies,
    policy_levels,
    remove_duplicate_aliases,
)
from sluicegate.config.environment import override, overrides
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.fields import PolicyFields
from sluicegate.config.layers import layers_of_levels
from sluicegate.config.models import Admin, BrokerConfig, GatewayConfig, PolicyModel
from sluicegate.config.port_conflicts import port_findings
from sluicegate.config.tree import MAX_BYTES, Node, Plain, parse
from sluicegate.config.validation import translate
from sluicegate.model import Level, PolicyLayer, PolicySet, digest_of, policy_version

Building = ParamSpec("Building")
Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration file without errors."""

    config: GatewayConfig
    policy_layers: tuple[PolicyLayer, ...]
    """The policies of the file, source FILE, with locations such as `gateway.yaml:12`."""
    locking: tuple[PolicyLayer, ...]
    """Those of them that lock something."""
    rules: bytes
    """From `digest_of`: equal iff these policies are."""
    text_digest: str
    """Equal iff the file and the overriding variables are unchanged."""
    file_digest: str
    """SHA-256 of the file's text alone."""
    fields: PolicyFields
    """The policy fields that were known when it was read."""
    root: Node
    """The file as a tree with locations, overrides applied."""
    warnings: tuple[Finding, ...] = ()
    """Probable mistakes that do not prevent the file from being used."""

    def version(self, store_layers: tuple[PolicyLayer, ...]) -> int:
        """The version of the policies of file and store, which all brokers of the file share."""
        return version_of(self.config.brokers, self.rules, digest_of(store_layers))

    def policies(self, store_layers: tuple[PolicyLayer, ...], version: int, broker: str) -> PolicySet:
        """Combine the policies of file and store into one snapshot.

        :param store_layers: the store's policies; they override the file's unless those are locked.
        :param version: from `version`.
        :param broker: name of the broker.
        :raises KeyError: if the file has no such broker.
        """
        chosen = next((each for each in self.config.brokers if each.name == broker), None)
        if chosen is None:
            raise KeyError(broker)
        return entry_policies(chosen, self.policy_layers + store_layers, version)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A configuration file as a tree, before any of its values is checked."""

    digest: str
    """Equal iff the file and the overriding variables are unchanged."""
    file_digest: str
    """SHA-256 of the file's text alone."""
    root: Node
    """Overrides applied."""
    findings: tuple[Finding, ...]
    """Errors that did not stop the parser."""

    @property
    def plugin_modules(self) -> tuple[str, ...]:
        """The readable names under `plugins:`. They must be imported before the file can be validated."""
        names = (node.scalar for node in self.root.listed("plugins"))
        return tuple(name for name in names if isinstance(name, str))


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a file, with or without errors."""

    findings: tuple[Finding, ...]
    """All errors and warnings."""
    loaded: Loaded | None
    """None if there are errors."""
    root: Node | None = None
    """The file as a tree with locations; None if it is not YAML."""
    brokers: tuple[tuple[int, BrokerConfig], ...] = ()
    """The entries, each with its index, without their invalid keys."""

    @classmethod
    def of(cls, loaded: Loaded) -> "Reading":
        """The reading of a file that has no errors."""
        return cls(loaded.warnings, loaded, loaded.root, tuple(enumerate(loaded.config.brokers)))


def load(
    path: str | os.PathLike[str],
    policy_models: Iterable[type[PolicyModel]],
    broker_models: Iterable[type[BrokerConfig]],
    environ: Mapping[str, str],
    *,
    parsed: Parsed | None = None,
    known: Loaded | None = None,
) -> Loaded:
    """Read and check a configuration file.

    :param path: the file, at most 16 MiB of UTF-8.
    :param policy_models: policy fields of all plugins.
    :param broker_models: configuration models of all broker drivers.
    :param environ: environment; variables that begin with `SLUICEGATE__` override the file.
    :param parsed: the file's `parse_file`, which may be used only once.
    :param known: an earlier result with the same plugins, which is returned if nothing has changed since.
    :raises ConfigErrors: with every error that was found; nothing is applied.
    """
    if known is not None:
        text, file_digest, digest = _text_and_digests(path, environ)
        if digest == known.text_digest:
            return known
        parsed = _parse(os.fspath(path), text, file_digest, digest, environ)
    reading = read(path, policy_models, broker_models, environ, parsed)
    if reading.loaded is None:
        raise ConfigErrors([finding for finding in reading.findings if finding.severity == "error"])
    return reading.loaded


def read(
    path: str | os.PathLike[str],
    policy_models: Iterable[type[PolicyModel]],
    broker_models: Iterable[type[BrokerConfig]],
    environ: Mapping[str, str],
    parsed: Parsed | None = None,
) -> Reading:
    """Read a configuration file as far as its errors allow; the parameters are those of `load`."""
    try:
        text = parsed or parse_file(path, environ)
    except ConfigErrors as refused:
        return Reading(tuple(refused.errors), None)
    return _checked(text, policy_models, broker_models)


def parse_file(path: str | os.PathLike[str], environ: Mapping[str, str]) -> Parsed:
    """Read a configuration file without checking its values; the parameters are those of `load`.

    :raises ConfigErrors: if it cannot be read, or is not YAML.
    """
    return _parse(os.fspath(path), *_text_and_digests(path, environ), environ)


def _text_and_digests(path: str | os.PathLike[str], environ: Mapping[str, str]) -> tuple[str, str, str]:
    """The file's text, the digest of it alone, and of it with the overriding variables."""
    text = read_text(os.fspath(path))
    digest = hashlib.sha256(text.encode())
    file_digest = digest.hexdigest()
    digest.update(repr(overrides(environ)).encode(errors="surrogateescape"))
    return text, file_digest, digest.hexdigest()


def _without_collections(build: Callable[Building, Built]) -> Callable[Building, Built]:
    """Pause the garbage collector, which would look at a growing tree again and again."""

    @wraps(build)
    def call(*arguments: Building.args, **options: Building.kwargs) -> Built:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return build(*arguments, **options)
        finally:
            if was_enabled:
                gc.enable()

    return call


@_without_collections
def _parse(file: str, text: str, file_digest: str, digest: str, environ: Mapping[str, str]) -> Parsed:
    findings: list[Finding] = []
    root = override(parse(text, file, findings), environ, findings)
    return Parsed(digest, file_digest, root, tuple(findings))


@_without_collections
def _checked(
    parsed: Parsed,
    policy_models: Iterable[type[PolicyModel]],
    broker_models: Iterable[type[BrokerConfig]],
) -> Reading:
    root, findings = parsed.root, list(parsed.findings)
    fields, models = PolicyFields.of(policy_models), tuple(broker_models)
    levels = tuple(policy_levels(root))
    findings.extend(remove_duplicate_aliases(levels, fields))
    made = _validate(root, file_model(fields, models), findings)
    brokers = tuple(
        enumerate(map(entry_alone, made.brokers)) if made is not None else _valid_brokers(root, models)
    )
    findings.extend(inconsistencies(root, levels, fields))
    findings.extend(port_findings(root, made.admin if made is not None else _valid_admin(root), brokers))
    if made is not None or len(brokers) == len(root.listed("brokers")):
        findings.extend(impossible_names(levels, [broker for _, broker in brokers]))
    findings.extend(impossible_principals(root, brokers))
    layers = tuple(layers_of_levels(levels, made, fields)) if made is not None else ()
    findings.extend(_contradictions(levels, layers, fields))
    warnings = tuple(finding for finding in findings if finding.severity == "warning")
    if made is None or len(warnings) < len(findings):
        return Reading(tuple(findings), None, root, brokers)
    sections = {name: getattr(made, name) for name in GatewayConfig.model_fields}
    sections["brokers"] = tuple(broker for _, broker in brokers)
    config = GatewayConfig.model_construct(**sections)
    digests = parsed.digest, parsed.file_digest
    locking = tuple(layer for layer in layers if layer.locks)
    loaded = Loaded(config, layers, locking, digest_of(layers), *digests, fields, root, warnings)
    return Reading(warnings, loaded, root, brokers)


def entry_alone(broker: BrokerConfig) -> BrokerConfig:
    """An entry without its policies, of the class that its driver declares, so that it can be pickled."""
    own = type(broker)
    if "policies" not in own.model_fields:
        return broker
    declared: type[BrokerConfig] = own.__bases__[0]
    values = {name: getattr(broker, name) for name in declared.model_fields}
    return declared.model_construct(broker.model_fields_set - {"policies"}, **values)


def version_of(entries: Iterable[BrokerConfig], *rules: bytes) -> int:
    """The version of the policies of some entries, which all of them share.

    :param rules: from `digest_of`, of each source.
    """
    options = [
        (entry.name, entry.observe_only, sorted(entry.exempt.principals), sorted(entry.exempt.policies))
        for entry in entries
    ]
    return policy_version(repr(options).encode(errors="surrogatepass"), *rules)


def entry_policies(entry: BrokerConfig, layers: tuple[PolicyLayer, ...], version: int) -> PolicySet:
    """The policies of one broker: those for all, and its own; with the settings of its entry."""
    return PolicySet(
        version=version,
        layers=tuple(layer for layer in layers if layer.broker in ("", entry.name)),
        observe_only=entry.observe_only,
        exempt_principals=frozenset(entry.exempt.principals),
        exempt_policies=frozenset(entry.exempt.policies),
    )


def file_model(fields: PolicyFields, broker_models: Iterable[type[BrokerConfig]]) -> type[GatewayConfig]:
    """The model of the whole file, including the plugins' parts."""
    return _file_model(fields.models, tuple(broker_models))


@lru_cache(maxsize=4)
def _file_model(
    policy_models: tuple[type[PolicyModel], ...], brokers: tuple[type[BrokerConfig], ...]
) -> type[GatewayConfig]:
    """Build the model. Cached, because building it takes longer than reading a file with it."""
    make: Any = create_model  # its overloads do not accept types built at run time
    policies = PolicyFields.of(policy_models).policies_model() | None
    own = (policies, Field(default=None, description="Policies for this broker alone, as under `policies`."))
    entries = [
        make(each.__name__, __base__=each, __doc__=each.__doc__, policies=own)
        for each in brokers or (BrokerConfig,)
    ]
    broker: Any = entries[0]
    for each in entries[1:]:
        broker = broker | each
    if len(entries) > 1:
        broker = Annotated[broker, Field(discriminator="system")]
    made: type[GatewayConfig] = make(
        "GatewayFile",
        __base__=GatewayConfig,
        __doc__="Sluicegate's configuration file.",
        brokers=(
            tuple[broker, ...],
            Field(min_length=1),
        ),
        policies=(
            policies,
            Field(default=None, description="Policies by level, merged field by field."),
        ),
    )
    return made


def read_text(file: str) -> str:
    """Read a file of at most 16 MiB of UTF-8.

    :raises ConfigErrors: if it cannot be read, is too large, or is not UTF-8.
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
        errors.append(root.location.error((), "expected a mapping (key: value)", "begin with 'brokers:'"))
        return None
    try:
        return model.model_validate(root.plain())
    except ValidationError as error:
        errors.extend(translate(error, root, model))
        return None


def _valid_brokers(
    root: Node, broker_models: Iterable[type[BrokerConfig]]
) -> Iterable[tuple[int, BrokerConfig]]:
    """The valid part of each entry, whatever else is wrong with the file."""
    models = tuple(broker_models) or (BrokerConfig,)
    for index, node in enumerate(root.listed("brokers")):
        candidates = (_valid_part(node.plain(), model) for model in models)
        if (broker := next((each for each in candidates if each is not None), None)) is not None:
            yield index, broker


_PLACEHOLDERS = {"name": "unnamed", "bootstrap": ["127.0.0.1:1"]}
"""Substitutes for required keys whose own value is invalid."""


def _valid_part(entry: Plain, model: type[BrokerConfig]) -> BrokerConfig | None:
    """An entry without its invalid keys; None if it describes another kind of broker."""
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_url=False) if detail["loc"]}
    if not isinstance(entry, dict) or "system" in wrong:
        return None
    rest = {key: value for key, value in entry.items() if key not in wrong}
    try:
        return model.model_validate({**_PLACEHOLDERS, **rest})
    except ValidationError:
        return None  # the remaining values conflict


def _valid_admin(root: Node) -> Admin | None:
    admin = root.child("admin")
    try:
        return Admin.model_validate(admin.plain() if admin is not None else {})
    except ValidationError:
        return None


def _contradictions(
    levels: Iterable[LevelNode], layers: Sequence[PolicyLayer], fields: PolicyFields
) -> Iterable[Finding]:
    for level, layer in zip(levels, layers, strict=False):  # no layers if the file is invalid
        if layer.level is not Level.BROKER or layer.scope:
            continue
        shared = [
            each
            for each in layers
            if each.level is Level.BROKER and not each.scope and each.broker in ("", layer.broker)
        ]
        values = {name: setting.value for each in shared for name, setting in each.settings.items()}
        for conflict in fields.contradictions(values):
            written = next(
                (key for key in fields.names_of(conflict.field) if level.node.key(key) is not None), None
            )
            location = level.node.key(written) if written is not None else None
            yield (location or level.node.location).error(
                (*level.path, written or conflict.field), conflict.problem, conflict.remedy
            )
