"""Formats a policy file from a broker's own settings, with a comment on each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.config.validation import first_problem
from sluicegate.features.drift.comparing import QUOTA_OF_EACH
from sluicegate.features.storage_quota.policy_text import quoted
from sluicegate.model import Level, PolicyValue
from sluicegate.model.own_limits import OwnSetting

_LONGEST = 200
_KEYS = {policy: key for key, policy in QUOTA_OF_EACH.items()}
_SECTIONS = {Level.NAMESPACE: "namespaces", Level.TOPIC: "topics"}


@dataclass(slots=True)
class ImportedFile:
    """A policy file in the making.

    :param command: the command that makes it.
    :param config: the broker's entry.
    :param fields: the policy fields of all plugins.
    :param notes: comments on the entry, a line each.
    """

    command: str
    config: BrokerConfig
    fields: PolicyFields
    notes: Sequence[str] = ()
    taken: int = 0
    left_out: int = 0
    _quotas: dict[str, list[tuple[OwnSetting, str]]] = field(default_factory=dict)
    _levels: dict[tuple[Level, str], list[str]] = field(default_factory=dict)
    _omissions: list[str] = field(default_factory=list)

    def add(self, settings: Iterable[OwnSetting]) -> None:
        """Convert settings, or list them as not converted."""
        for one in settings:
            if why := self._reason(one):
                self.left_out += 1
                self._omissions += [f"#   {_described(one)}:", *(f"#     {_shown(each)}" for each in why)]
                continue
            if self._is_default(one):
                continue
            self.taken += 1
            if one.principal:
                key = f"{_KEYS[one.field]}: {self._value(one)}"
                self._quotas.setdefault(one.principal, []).append((one, key))
            else:
                comments = [f"# {_shown(each)}" for each in (_written(one), *one.notes)]
                lines = self._levels.setdefault((one.level, one.name), [])
                lines += [*comments, f"{one.field}: {self._value(one)}"]

    def text(self, gaps: Sequence[str]) -> str:
        """The text of the whole file.

        :param gaps: what could not be read.
        """
        lines = [
            f"# Created by `{_shown(self.command)}`.",
            "# The brokers keep their own limits. Where both have one, the smaller one applies.",
            *self._entry(),
            *self._policies(),
        ]
        if self._omissions:
            lines += ["", "# Not converted:", *self._omissions]
        if gaps:
            lines += ["", "# Not read:", *(f"#   {_shown(gap)}" for gap in gaps)]
        return "\n".join(lines) + "\n"

    # -- what is converted ----------------------------------------------------------------------------

    def _reason(self, one: OwnSetting) -> Sequence[str]:
        """Why a setting is not converted; empty if it is."""
        if not one.field:
            return one.notes or ("no policy sets it.",)
        if one.field not in self.fields.infos or (one.principal and one.field not in _KEYS):
            return ("no policy sets it.",)
        if any(char.isspace() or not char.isprintable() or char == "*" for char in one.name):
            return ("the name cannot stand in a policy: it has spaces, control characters or `*`.",)
        if one.level is not Level.BROKER and (rule := self.config.rule_of_names(one.level, one.name)):
            return (f"the name cannot stand in a policy: {rule}.",)
        try:
            self.fields.parse(one.field, one.value)
        except ValueError as error:
            return (f"{first_problem(error)}.",)
        return ()

    def _is_default(self, one: OwnSetting) -> bool:
        """Whether it says what holds without it."""
        if one.level is not Level.BROKER or one.principal:
            return False
        nothing: PolicyValue = True if isinstance(one.value, bool) else 0
        return one.value == self.fields.defaults.get(one.field, nothing)

    def _value(self, one: OwnSetting) -> str:
        text = self.fields.text(one.field, one.value)
        return text if one.value or isinstance(one.value, bool) else f"0  # {text}"

    # -- how it is written ----------------------------------------------------------------------------

    def _entry(self) -> Iterator[str]:
        config = self.config
        addresses = ", ".join(quoted(str(each)) for each in config.bootstrap)
        yield from ("", "brokers:", f"  - name: {quoted(config.name)}", f"    system: {config.system}")
        yield from (f"    # {_shown(note)}" for note in self.notes)
        yield f"    bootstrap: [{addresses}]"
        yield f"    listen: {{ host: {quoted(config.listen.host)}, port: {config.listen.port} }}"
        admin = getattr(config, "admin", None)
        if admin is not None:
            yield f"    admin: {{ url: {quoted(admin.url)} }}"
        if self._quotas:
            yield "    quotas:"
        for principal, quotas in self._quotas.items():
            for one, _ in quotas:
                yield from (f"      # {_shown(each)}" for each in (_written(one), *one.notes))
            yield f"      - {{ principal: {quoted(principal)}, {', '.join(key for _, key in quotas)} }}"

    def _policies(self) -> Iterator[str]:
        if not self._levels:
            return
        yield from ("", "policies:")
        if own := self._levels.get((Level.BROKER, "")):
            yield from ("  broker:", *(f"    {line}" for line in own))
        for level, section in _SECTIONS.items():
            named = {name: lines for (at, name), lines in self._levels.items() if at is level}
            if named:
                yield f"  {section}:"
            for name, lines in named.items():
                yield f"    - name: {quoted(name)}"
                yield from (f"      {line}" for line in lines)


def _written(one: OwnSetting) -> str:
    return f"{one.origin} = {one.text}"


def _described(one: OwnSetting) -> str:
    target = "" if one.level is Level.BROKER else f"{one.level.label} {one.name}: "
    return _shown(f"{target}{_written(one)}")


def _shown(text: str) -> str:
    """A text for a comment: on one line, with what YAML refuses in it escaped."""
    line = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
