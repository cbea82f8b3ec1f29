"""Formats a policy file that is converted from properties, with a comment on each property."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os.path import basename

from sluicegate.config.errors import Finding
from sluicegate.config.secrets import resembles_secret, shown_text
from sluicegate.features.storage_quota.properties import Property

CALLBACK = "client.quota.callback.class"
_LONGEST = 80


@dataclass(slots=True)
class PolicyText:
    """The lines of the policy file by section.

    :param file: name of the properties file.
    """

    file: str
    errors: list[Finding] = field(default_factory=list)
    bootstrap: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    """Lines of the broker's entry."""
    storage: list[str] = field(default_factory=list)
    """Lines of its `storage:` section."""
    rates: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    """Policies of storage quotas."""
    is_off: bool = False
    """True if the plug-in checks no volumes, so that its limits have no effect."""
    taken: int = 0
    omitted: int = 0
    _omissions: list[str] = field(default_factory=list)

    def about(self, one: Property, *notes: str) -> list[str]:
        """Create the comment for a line that is converted from a property."""
        self.taken += 1
        return [f"# {_describe(one)}", *(f"# {note}" for note in notes)]

    def leave_out(self, one: Property, why: str, *, is_secret: bool = False) -> None:
        """List a property that is not converted, with the reason, at the end of the file.

        :param is_secret: True to omit its value, as for keys that resemble secrets.
        """
        self.omitted += 1
        is_hidden = is_secret or resembles_secret(one.key)
        shown = f"{one.key} (line {one.line})" if is_hidden else _describe(one)
        self._omissions += [f"#   {shown}:", f"#     {why}"]

    @property
    def has_limits(self) -> bool:
        """True if a volume can reach a limit."""
        return any(line.startswith(("storage_hard_", "storage_soft_")) for line in self.limits)

    def text(self, others: Sequence[Property]) -> str:
        """The text of the whole policy file.

        :param others: properties of the file that are not the plug-in's.
        """
        callback = [f"#   {_describe(one)}" for one in others if one.key == CALLBACK]
        lines = [
            f"# Created by `sluicegate import strimzi {_shown(basename(self.file))}`.",
            "# Once clients use the gateway, remove the plug-in's properties from brokers, or both apply.",
            *callback,
            "",
            "brokers:",
            "  - name: kafka",
            *_indented(self._entry(), 4),
            *self._policies(),
        ]
        if self._omissions:
            lines += ["", "# Not converted:", *self._omissions]
        rest = len(others) - len(callback)
        if rest:
            noun = "property of the file is" if rest == 1 else "properties of the file are"
            lines += ["", f"# {rest} other {noun} not the plug-in's."]
        return "\n".join(lines) + "\n"

    def _entry(self) -> list[str]:
        unknown = ["# The properties contain no broker address.", 'bootstrap: ["127.0.0.1:9092"]']
        lines = [
            "system: kafka",
            *(self.bootstrap or unknown),
            "# The new address for clients; choose an address and a port.",
            "listen: { host: 127.0.0.1, port: 19092 }",
            *self.entry,
        ]
        if self.has_limits and not self.is_off:
            lines += ["storage:", *_indented(["source: log_dirs", *self.storage])]
        return lines

    def _policies(self) -> list[str]:
        limits = self.limits
        if self.is_off:
            limits = [line if line.startswith("#") else f"# {line}" for line in limits]
        policies = [*self.rates, *limits]
        if all(line.startswith("#") for line in policies):
            return ["", *policies] if policies else []
        return ["", "policies:", "  broker:", *_indented(policies, 4)]


def quoted(text: str) -> str:
    """Quote a text for YAML."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _indented(lines: Iterable[str], spaces: int = 2) -> list[str]:
    return [f"{' ' * spaces}{line}" for line in lines]


def _describe(one: Property) -> str:
    return f"{one.key} = {_shown(one.value)} (line {one.line})"


def _shown(value: str) -> str:
    """A value for a comment: on one line and without control characters."""
    text = "".join(char if char.isprintable() else " " for char in shown_text(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
