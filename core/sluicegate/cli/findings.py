"""Findings of `check` and `run` besides the file's own errors: policies without effect, unusable files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path as FilePath

from sluicegate.budgets import BudgetStoreError
from sluicegate.cli.explained import unmatched_text
from sluicegate.cli.opening import Opened
from sluicegate.config.consistency import policy_levels
from sluicegate.config.errors import Finding, Severity
from sluicegate.config.files import (
    admin_tls,
    directory_findings,
    exposed_admin,
    problem_with_directory,
    tls_findings,
    tls_sections,
)
from sluicegate.config.load import Reading
from sluicegate.config.models import BrokerConfig
from sluicegate.config.secrets import shown_value
from sluicegate.config.tree import Location
from sluicegate.config.validation import Path
from sluicegate.config.worker_counts import worker_findings
from sluicegate.engine.hierarchy import Resolver
from sluicegate.features.storage_quota.quota_fields import LIMITS
from sluicegate.model import Level, PolicyLayer, PolicyValue, Setting, TopicName
from sluicegate.policies.creation import ALLOWED
from sluicegate.policies.size import INSPECT, MESSAGE_SIZE
from sluicegate.runtime.effective import unmatched
from sluicegate.runtime.plugins import PluginError
from sluicegate.store import StoreError
from sluicegate.store.sqlite_file import is_missing, sqlite_path

_STORES = (
    "write sqlite:///PATH with a path that the gateway can write to, etcd://HOST:2379/PREFIX, or memory:"
)
_NO_LIMIT = {ALLOWED: True}
"""The value that limits nothing, by policy; 0 or false of all others."""


@dataclass(frozen=True, slots=True)
class Written:
    """One policy setting of the file, with its location."""

    layer: PolicyLayer
    name: str
    setting: Setting
    path: Path
    location: Location

    def warning(self, message: str, remedy: str) -> Finding:
        """A warning at that location."""
        return self.location.error(self.path, message, remedy, "warning")

    def applies_to(self, broker: BrokerConfig) -> bool:
        """Whether it holds for a broker."""
        return self.layer.broker in ("", broker.name)


def policy_warnings(opened: Opened) -> Iterator[Finding]:
    """Find policies that have no effect, or an unexpected one."""
    loaded = opened.loaded
    uninspected = _first_uninspected(loaded.policy_layers)
    lowest = _lowest_ceilings(loaded.policy_layers)
    resolvers = [
        (each, Resolver(loaded.policies((), 1, each.name), loaded.fields.defaults_with(each.policy_defaults)))
        for each in loaded.config.brokers
    ]
    for written in written_settings(opened):
        warnings = [*_not_applicable(opened, written), *_unread(opened, written)]
        if written.name == MESSAGE_SIZE and written.layer is uninspected:
            warnings += _uninspected(opened, written)
        if _may_exceed(written.setting.value, lowest.get(written.name)):
            warnings += _clamped(opened, resolvers, written)
        yield from dict.fromkeys(warnings)  # several brokers may have the same findings
    yield from _unmatched(opened)
    yield from exposed_admin(loaded.root, loaded.config.admin)


def _unmatched(opened: Opened) -> Iterator[Finding]:
    """Find policies for all brokers whose names one of the brokers cannot have; one note for each broker."""
    loaded = opened.loaded
    for broker in loaded.config.brokers if len(loaded.config.brokers) > 1 else ():
        layers = unmatched(loaded.policy_layers, broker)
        if not layers:
            continue
        location = loaded.root.nearest(("policies",))
        for level, layer in zip(policy_levels(loaded.root), loaded.policy_layers, strict=True):
            if (layer.level.label, layer.name) == (layers[0]["level"], layers[0]["name"]):
                location = loaded.root.nearest((*level.path, "name"))
                break
        yield location.error(
            ("policies",),
            f"{unmatched_text(layers)} can match nothing on broker {broker.name!r}",
            f"on {broker.system} {layers[0]['rule']}; policies of one broker stand in its own 'policies'",
            "note",
        )


def file_findings(
    reading: Reading, outdated_is: Severity, *, warn_of_expiry: bool = False
) -> Iterator[Finding]:
    """Find files and directories that the configuration refers to and the gateway cannot use.

    :param outdated_is: the severity of a certificate that is not valid now.
    :param warn_of_expiry: whether to warn of certificates that expire soon.
    """
    if reading.root is None:
        return
    sections = [*tls_sections(reading.brokers)]
    if reading.loaded is not None:
        sections += admin_tls(reading.loaded.config.admin)
    yield from tls_findings(
        reading.root, sections, datetime.now(UTC), outdated_is, warn_of_expiry=warn_of_expiry
    )
    yield from worker_findings(reading.root, reading.brokers)
    if reading.loaded is not None:
        yield from directory_findings(reading.root, reading.loaded.config)


def store_findings(opened: Opened) -> Iterator[Finding]:
    """Find a policy store that cannot be opened. A missing SQLite file is not created."""
    loaded = opened.loaded
    url = loaded.config.store_url
    if loaded.config.store is None and problem_with_directory(loaded.config.state_dir):
        return  # the default file is in `state_dir`, which has already been checked
    path = sqlite_path(url)
    if path is not None and is_missing(url):
        problem, remedy = problem_with_directory(FilePath(path).parent), _STORES
    else:
        problem, remedy = _problem_with_store(opened, url)
    if problem:
        message = f"policy store {shown_value(url)} cannot be opened: {problem}"
        yield loaded.root.nearest(("store",)).error(("store",), message, remedy)


def budget_findings(opened: Opened) -> Iterator[Finding]:
    """Find budgets that no installed plugin can open; nothing is connected."""
    loaded = opened.loaded
    if loaded.config.budgets is not None:
        try:
            opened.plugins.open_budgets(loaded.config.budgets, "check")
        except BudgetStoreError as error:
            at, remedy = ("budgets",), "a gateway starts with it, and does as 'on_budget_lost' says"
            yield loaded.root.nearest(at).error(at, f"budget store cannot be opened: {error}", remedy)


def _problem_with_store(opened: Opened, url: str) -> tuple[str, str]:
    """Try to open a store; return problem and remedy, both empty if it works."""
    try:
        opened.plugins.open_store(url).close()
    except StoreError as error:
        return error.message, error.remedy
    except PluginError as error:
        return str(error), _STORES
    return "", ""


def written_settings(opened: Opened) -> Iterator[Written]:
    """All policy settings of the file, with their locations."""
    loaded = opened.loaded
    for level, layer in zip(policy_levels(loaded.root), loaded.policy_layers, strict=True):
        path, node = level.path, level.node
        for name, setting in layer.settings.items():
            names = loaded.fields.names_of(name)
            written = next((each for each in names if node.child(each) is not None), name)
            full = (
                (*path, *written.split(".", 1)) if written not in (node.entries or {}) else (*path, written)
            )
            yield Written(layer, name, setting, full, loaded.root.nearest(full))


def _not_applicable(opened: Opened, written: Written) -> Iterator[Finding]:
    for broker in filter(written.applies_to, opened.loaded.config.brokers):
        how = opened.capabilities(broker.system).get(written.name)
        if how == "not applicable" and written.setting.value != _NO_LIMIT.get(written.name, 0):
            yield written.warning(
                f"{written.name!r} is not applicable to {broker.system} and has no effect on broker "
                f"{broker.name!r}",
                "remove it, unless it is meant for another broker of this file",
            )


def _unread(opened: Opened, written: Written) -> Iterator[Finding]:
    """Find storage limits for a broker whose volumes are not monitored."""
    for broker in filter(written.applies_to, opened.loaded.config.brokers):
        if written.name in LIMITS and broker.storage is None and written.setting.value != 0:
            yield written.warning(
                f"{written.name!r} has no effect on broker {broker.name!r}, which has no 'storage:' section",
                "add the section, which sets the source of its volumes' usage",
            )


def _first_uninspected(layers: Sequence[PolicyLayer]) -> PolicyLayer | None:
    """The first layer with a size limit, which is reported once; None if `inspect` is set anywhere."""
    if any(INSPECT in layer.settings for layer in layers):
        return None
    return next((layer for layer in layers if MESSAGE_SIZE in layer.settings), None)


def _uninspected(opened: Opened, written: Written) -> Iterator[Finding]:
    """Find a size limit that does not apply to messages in compressed batches."""
    if written.setting.value == 0:
        return
    for broker in filter(written.applies_to, opened.loaded.config.brokers):
        if opened.capabilities(broker.system).get(INSPECT, "not applicable") != "not applicable":
            yield written.warning(
                f"{written.name!r} counts a compressed batch as one message of its compressed size on broker "
                f"{broker.name!r}",
                "set 'inspect: true' to check the messages in it, or 'inspect: false' to keep this behaviour",
            )


def _lowest_ceilings(layers: Iterable[PolicyLayer]) -> dict[str, float]:
    """The lowest ceiling of each field, at any level."""
    lowest: dict[str, float] = {}
    for layer in layers:
        for name, ceiling in layer.ceilings.items():
            if isinstance(ceiling.value, int | float):
                lowest[name] = min(ceiling.value, lowest.get(name, ceiling.value))
    return lowest


def _may_exceed(value: PolicyValue, lowest: float | None) -> bool:
    """Whether some ceiling can tighten a value; 0 is unlimited, or always lowest."""
    return lowest is not None and isinstance(value, int | float) and not 0 < value <= lowest


def _clamped(
    opened: Opened, resolvers: Iterable[tuple[BrokerConfig, Resolver]], written: Written
) -> Iterator[Finding]:
    """Find a value that a ceiling of the file always overrides, as `explain` would show."""
    fields = opened.loaded.fields
    layer, name, setting = written.layer, written.name, written.setting
    for broker, resolver in resolvers:
        if not written.applies_to(broker):
            continue
        # If the broker level has the ceiling, any name that matches the pattern is representative.
        sample = layer.name.replace("*", "x")
        topic = TopicName("", sample)
        if layer.level is Level.TOPIC and broker.system not in opened.plugins.drivers:
            continue  # its extra is not installed
        if layer.level is Level.TOPIC:
            topic = opened.plugins.drivers[broker.system].name_of(sample, broker)
        effective = resolver.resolve(topic, layer.level, (layer.scope,) if layer.scope else ())
        provenance = effective.provenance.get(name)
        if provenance is None or (provenance.level, provenance.location) != (layer.level, setting.location):
            continue
        own = layer.ceilings[name].location if name in layer.ceilings else None
        is_certain = "*" not in layer.name or provenance.ceiling.startswith(Level.BROKER.label)
        if provenance.ceiling and (is_certain or provenance.ceiling.endswith(f" {own}")):
            value, bound = fields.text(name, setting.value), fields.text(name, effective.values[name])
            yield written.warning(
                f"{name} {value} is above the {provenance.ceiling}: {bound} applies instead",
                "write that or less, or raise the ceiling",
            )
