"""YAML as a tree that remembers where everything stands.

PyYAML's own constructor keeps the last of two equal keys silently, reads `010` as 8, `1:30` as 90 and
`no` as false, and expands aliases without bound. So only its parser is used here: scalars are read by
the YAML 1.2 core rules, and size, depth and expansion are bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from sluicegate.config.errors import ConfigErrors, Finding, Severity, without_secrets

MAX_BYTES = 1_048_576
"""Largest file that is read."""
MAX_DEPTH = 32
MAX_NODES = 100_000
"""Most values that a file may hold after its aliases are expanded."""

Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]{1,40}")
_PREFIXED_INT = re.compile(r"0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, Scalar] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    ".nan": float("nan"),
    ".inf": float("inf"),
    "-.inf": float("-inf"),
}


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file, or the value of an environment variable, by lines."""

    name: str
    lines: tuple[str, ...] = ()

    def line(self, number: int) -> str:
        """One line, counted from 0; empty if there is none."""
        return self.lines[number] if number < len(self.lines) else ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key or a value stands; line and column are counted from 0."""

    source: SourceText
    line: int
    column: int
    length: int = 1

    def error(
        self,
        path: tuple[str | int, ...],
        message: str,
        remedy: str = "",
        severity: Severity = "error",
    ) -> Finding:
        """A finding that points here."""
        return Finding(
            file=self.source.name,
            line=self.line + 1,
            column=self.column + 1,
            path=".".join(map(str, path)),
            message=message,
            remedy=remedy,
            source_line=without_secrets(self.source.line(self.line)),
            length=self.length,
            severity=severity,
        )


@dataclass(slots=True)
class Node:
    """One value of the file: exactly one of the three contents is used."""

    place: Place
    scalar: Scalar = None
    items: "list[Node] | None" = None
    entries: "dict[str, Entry] | None" = None
    size: int = 1
    """Number of values in it, itself included, with aliases expanded."""

    def plain(self) -> Plain:
        """The value without its places."""
        if self.entries is not None:
            return {key: entry.node.plain() for key, entry in self.entries.items()}
        if self.items is not None:
            return [item.plain() for item in self.items]
        return self.scalar

    def child(self, step: str | int) -> "Node | None":
        """The value under a key or an index; None if there is none."""
        if self.entries is not None:
            entry = self.entries.get(str(step))
            return entry.node if entry is not None else None
        if self.items is not None and isinstance(step, int) and 0 <= step < len(self.items):
            return self.items[step]
        return None

    def nearest(self, path: tuple[str | int, ...]) -> Place:
        """Where a path stands: its value, a section's key, or what is closest above it if it is unset."""
        node, place = self, self.place
        for step in path:
            child = node.child(step)
            if child is None:
                break
            is_section = child.entries is not None or child.items is not None
            place = (node.key(step) if is_section else None) or child.place
            node = child
        return place

    def key(self, step: str | int) -> Place | None:
        """Where a key stands; None if there is no such key."""
        entry = self.entries.get(str(step)) if self.entries is not None else None
        return entry.key if entry is not None else None


@dataclass(slots=True)
class Entry:
    """One key of a mapping and its value."""

    key: Place
    node: Node


def resolve_scalar(text: str) -> Scalar:
    """Read a plain (unquoted) scalar by the YAML 1.2 core rules."""
    if text in _WORDS or (text.lower() in _WORDS and text in (text.lower(), text.title(), text.upper())):
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    if _PREFIXED_INT.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def parse(text: str, name: str, errors: list[Finding]) -> Node:
    """Read one YAML document.

    :param text: the document.
    :param name: file name for messages.
    :param errors: takes the errors that do not end the reading (keys given twice).
    :raises ConfigErrors: if the text is not YAML, has several documents, or is too deep or too large.
    """
    source = SourceText(name, tuple(text.splitlines()))
    try:
        return _Composer(source, yaml.parse(text, Loader=_LOADER), errors).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(source, mark.line, mark.column) if mark is not None else Place(source, 0, 0)
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        if source.line(place.line)[place.column : place.column + 1] == "\t":
            problem, remedy = "a tab, '\\t', where only spaces may stand", "indent with spaces, not with tabs"
        elif "mapping values are not allowed" in problem:
            remedy = "put a value with ': ' in it in quotes, or check the indentation"
        else:
            remedy = "check indentation, brackets and quotes"
        raise ConfigErrors([*errors, place.error((), f"not YAML: {problem}", remedy)]) from None
    except yaml.reader.ReaderError as error:
        code = int(str(error.character))
        at = max(0, text.find(chr(code)))  # the reader's own position counts bytes
        place = Place(source, text.count("\n", 0, at), at - (text.rfind("\n", 0, at) + 1))
        problem = f"not YAML: unacceptable character #x{code:04x}"
        remedy = "delete it, and save the file as plain text"
        raise ConfigErrors([place.error((), problem, remedy)]) from None
    except (yaml.YAMLError, UnicodeError) as error:
        first = str(error).splitlines()[0]
        remedy = "save it as plain text in UTF-8"
        raise ConfigErrors([Place(source, 0, 0).error((), f"not YAML: {first}", remedy)]) from None


@dataclass(slots=True)
class _Composer:
    source: SourceText
    events: Iterator[yaml.Event]
    errors: list[Finding]
    anchors: dict[str, Node] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Node:
        next(self.events)  # the stream's start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            raise ConfigErrors([Place(self.source, 0, 0).error((), "the file is empty", "name a broker")])
        root = self.node(next(self.events), (), 0)
        next(self.events)  # the document's end
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fatal(event, (), "a second document begins here", "keep one document in the file")
        return root

    def node(self, event: Any, path: tuple[str | int, ...], depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.fatal(event, path, f"nested more than {MAX_DEPTH} deep", "check the brackets")
        if isinstance(event, yaml.AliasEvent):
            node = self.anchors.get(event.anchor or "")
            if node is None:
                message = f"alias {event.anchor!r} has no anchor before it"
                raise self.fatal(event, path, message, "put a text that begins with '*' in quotes")
            self.count(event, path, node.size)
            return node
        self.count(event, path, 1)
        if event.tag is not None:
            raise self.fatal(event, path, f"tag {event.tag!r} is not supported", "write plain values")
        node = Node(self.place(event))
        if isinstance(event, yaml.MappingStartEvent):
            self.mapping(node, path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.sequence(node, path, depth)
        else:
            node.scalar = resolve_scalar(event.value) if event.implicit[0] else event.value
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def mapping(self, node: Node, path: tuple[str | int, ...], depth: int) -> None:
        node.entries = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self.fatal(
                    event, path, "a key must be plain text", "write the key as a word, or in quotes"
                )
            key, place = event.value, self.place(event)
            child = self.node(next(self.events), (*path, key), depth + 1)
            first = node.entries.get(key)
            if first is not None:
                self.errors.append(
                    place.error(
                        (*path, key),
                        f"key {key!r} is given twice",
                        f"first given in line {first.key.line + 1}: keep one of them",
                    )
                )
                continue
            node.entries[key] = Entry(place, child)
            node.size += child.size

    def sequence(self, node: Node, path: tuple[str | int, ...], depth: int) -> None:
        node.items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            child = self.node(event, (*path, len(node.items)), depth + 1)
            node.items.append(child)
            node.size += child.size

    def count(self, event: yaml.Event, path: tuple[str | int, ...], size: int) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise self.fatal(event, path, f"more than {MAX_NODES} values", "use fewer aliases")

    def place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return Place(self.source, start.line, start.column, max(1, length))

    def fatal(
        self, event: yaml.Event, path: tuple[str | int, ...], message: str, remedy: str
    ) -> ConfigErrors:
        return ConfigErrors([*self.errors, self.place(event).error(path, message, remedy)])
