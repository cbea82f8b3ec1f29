"""Parses YAML into a tree that records the location of every key and value.

PyYAML's own constructor silently keeps the last of two equal keys, reads `010` as 8, `1:30` as 90 and
`no` as false, and expands aliases without bound. This module uses only its parser. It resolves scalars by
the YAML 1.2 core schema and bounds size, depth and expansion.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import yaml

from sluicegate.config.errors import ConfigErrors, Finding, Severity
from sluicegate.config.secrets import (
    HIDDEN,
    first_secret,
    holds_secret,
    resembles_secret,
    shown_key,
    shown_path,
    shown_value,
    without,
)

MAX_BYTES = 16 * 1024 * 1024
"""Largest file that is read."""
MAX_DEPTH = 32
MAX_NODES = 1_000_000
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
_FIRST_OF_NO_TEXT = frozenset(["", *"~nNtTfF.+-0123456789"])
"""First characters of the scalars that can be something else than text."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file, or the value of an environment variable, by lines."""

    name: str
    lines: tuple[str, ...] = ()
    secrets: set[str] = field(default_factory=set, compare=False, repr=False)
    """Values found under secret keys; no message may repeat them."""
    _hidden: dict[int, int] = field(default_factory=dict, compare=False, repr=False)
    """Column from which a line must not be shown, by line."""

    def line(self, number: int) -> str:
        """One line, counted from 0; empty if there is none."""
        return self.lines[number] if number < len(self.lines) else ""

    def hide(self, line: int, column: int, last_line: int) -> None:
        """Hide the text from a position to the end of `last_line`."""
        self._hidden[line] = min(column, self._hidden.get(line, column))
        self._hidden.update(dict.fromkeys(range(line + 1, last_line + 1), 0))

    def shown(self, number: int, column: int) -> str:
        """One line up to its first secret; empty if the secret precedes the given column."""
        line = self.line(number)
        cuts = [cut for cut in (self._hidden.get(number), first_secret(line)) if cut is not None]
        if not cuts:
            return line
        return line[: min(cuts)] + HIDDEN if column < min(cuts) else ""


class Location(NamedTuple):
    """The location of a key or a value; line and column are counted from 0."""

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
        """Create a finding at this location."""
        return Finding(
            file=self.source.name,
            line=self.line + 1,
            column=self.column + 1,
            path=without(shown_path(path), self.source.secrets),
            message=without(message, self.source.secrets),
            remedy=without(remedy, self.source.secrets),
            source_line=self.source.shown(self.line, self.column),
            length=self.length,
            severity=severity,
        )


@dataclass(slots=True)
class Node:
    """One value of the file: a scalar, a list (`items`) or a mapping (`entries`)."""

    location: Location
    scalar: Scalar = None
    items: "list[Node] | None" = None
    entries: "dict[str, Entry] | None" = None
    size: int = 1
    """Number of values in it, including itself, with aliases expanded."""
    last_line: int = 0
    """Its last line, counted from 0."""

    def plain(self) -> Plain:
        """The value without locations."""
        if self.entries is not None:
            return {key: entry.node.plain() for key, entry in self.entries.items()}
        if self.items is not None:
            return [item.plain() for item in self.items]
        return self.scalar

    def child(self, *path: str | int) -> "Node | None":
        """The value at a path of keys and indexes; None if there is none."""
        node = self
        for step in path:
            if node.entries is not None and (entry := node.entries.get(str(step))) is not None:
                node = entry.node
            elif node.items is not None and isinstance(step, int) and 0 <= step < len(node.items):
                node = node.items[step]
            else:
                return None
        return node

    def listed(self, *path: str | int) -> "Sequence[Node]":
        """The items of the list at a path; empty if there is no list."""
        node = self.child(*path)
        return (node.items or ()) if node is not None else ()

    def nearest(self, path: tuple[str | int, ...]) -> Location:
        """The location of the value at a path (of its key, for a section), or of its closest parent."""
        node, location = self, self.location
        for step in path:
            child = node.child(step)
            if child is None:
                break
            is_section = child.entries is not None or child.items is not None
            location = (node.key(step) if is_section else None) or child.location
            node = child
        return location

    def key(self, step: str | int) -> Location | None:
        """The location of a key; None if there is no such key."""
        entry = self.entries.get(str(step)) if self.entries is not None else None
        return entry.key if entry is not None else None


@dataclass(slots=True)
class Entry:
    """One key of a mapping and its value."""

    key: Location
    node: Node

    def hide(self) -> None:
        """Never show the value in messages."""
        key, value = self.key, self.node.location
        # The text of an environment variable is the value alone, so key and value have one location.
        is_beside = value.line == key.line
        start = value.column if is_beside else key.column + key.length
        key.source.hide(key.line, start, max(key.line, self.node.last_line))


class _Mistake(NamedTuple):
    """An error whose finding is created after parsing, when all secrets of the file are known."""

    location: Location
    path: tuple[str | int, ...]
    message: str
    remedy: str

    def finding(self) -> Finding:
        return self.location.error(self.path, self.message, self.remedy)


class _FatalError(Exception):
    """An error that stops parsing."""

    def __init__(self, mistake: _Mistake) -> None:
        super().__init__(mistake.message)
        self.mistake = mistake


def resolve_scalar(text: str) -> Scalar:
    """Read a plain (unquoted) scalar by the YAML 1.2 core rules."""
    if text[:1] not in _FIRST_OF_NO_TEXT:
        return text
    if text in _WORDS or (text.lower() in _WORDS and text in (text.lower(), text.title(), text.upper())):
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    if _PREFIXED_INT.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


def parse(
    text: str,
    name: str,
    errors: list[Finding],
    *,
    secrets: set[str] | None = None,
    is_secret: bool = False,
) -> Node:
    """Read one YAML document.

    In text that is not YAML, keys and values cannot be identified. If it may contain a secret, no line of it
    is shown.

    :param text: the document.
    :param name: file name for messages.
    :param errors: receives the errors that do not stop parsing, such as duplicate keys.
    :param secrets: receives the values of passwords and tokens, which no message may repeat.
    :param is_secret: True if the whole text is a secret.
    :raises ConfigErrors: if the text is not YAML, has several documents, or is too deep or too large.
    """
    source = SourceText(name, tuple(text.splitlines()), set() if secrets is None else secrets)
    composer = _Composer(source, yaml.parse(text, Loader=_LOADER), is_secret)
    try:
        root = composer.document()
    except _FatalError as fatal:
        mistake = fatal.mistake
    except yaml.MarkedYAMLError as error:
        mistake = _syntax_mistake(error, source)
    except yaml.reader.ReaderError as error:
        mistake = _character_mistake(error, source, text)
    except (yaml.YAMLError, UnicodeError) as error:
        problem = f"not YAML: {str(error).splitlines()[0]}"
        mistake = _Mistake(Location(source, 0, 0), (), problem, "save it as plain text in UTF-8")
    else:
        errors.extend(each.finding() for each in composer.mistakes)
        return root
    if is_secret or composer.has_secret or holds_secret(text):
        source.hide(0, 0, len(source.lines))
        mistake = mistake._replace(message=_QUOTED.sub(HIDDEN, mistake.message))
    raise ConfigErrors([*errors, *(each.finding() for each in (*composer.mistakes, mistake))])


_QUOTED = re.compile(r"'[^'<]{4,}'")
"""Text that the parser's message quotes, such as a tag."""


def _syntax_mistake(error: yaml.MarkedYAMLError, source: SourceText) -> _Mistake:
    mark = error.problem_mark or error.context_mark
    if (error.context or "").endswith("a quoted scalar"):
        mark = error.context_mark  # the problem is found at the end of the file, far from the quote
    location = Location(source, mark.line, mark.column) if mark is not None else Location(source, 0, 0)
    return _Mistake(
        location, (), *_syntax_problem(error, location.line, source.line(location.line)[location.column :])
    )


_DEEP = (f"nested more than {MAX_DEPTH} deep", "check the brackets")


def _syntax_problem(error: yaml.MarkedYAMLError, line: int, rest: str) -> tuple[str, str]:
    """The message and the remedy for text that is not YAML.

    :param line: of the mistake.
    :param rest: this line from the mistake on.
    """
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    opened = error.context_mark
    remedy = "check indentation, brackets and quotes"
    if "maximum nesting depth" in problem:
        return _DEEP  # libyaml has a limit of its own since 0.2.6
    if rest.startswith("\t"):
        problem, remedy = "a tab, '\\t', where only spaces are allowed", "indent with spaces, not with tabs"
    elif "mapping values are not allowed" in problem:
        remedy = "put a value with ': ' in it in quotes, or check the indentation"
    elif "unknown escape character" in problem:
        remedy = "put text with a backslash in single quotes"
    elif "a quoted scalar" in problem:
        remedy = "close the quote"
    elif "an alias" in problem:
        remedy = "put text that begins with '*' in quotes"
    elif "cannot start any token" in problem:
        remedy = f"put text that begins with {rest[:1]!r} in quotes"
    elif "while parsing a flow" in problem and opened is not None and opened.line != line:
        remedy = f"check the brackets: one opens in line {opened.line + 1}"
    return f"not YAML: {problem}", remedy


def _character_mistake(error: yaml.reader.ReaderError, source: SourceText, text: str) -> _Mistake:
    code = int(str(error.character))
    at = max(0, text.find(chr(code)))  # the reader's own position counts bytes
    location = Location(source, text.count("\n", 0, at), at - (text.rfind("\n", 0, at) + 1))
    problem = f"not YAML: unacceptable character #x{code:04x}"
    return _Mistake(location, (), problem, "delete it, and save the file as plain text")


@dataclass(slots=True)
class _Composer:
    source: SourceText
    events: Iterator[yaml.Event]
    is_secret: bool
    """True if the whole text is a secret."""
    mistakes: list[_Mistake] = field(default_factory=list)
    has_secret: bool = False
    anchors: dict[str, Node] = field(default_factory=dict)
    nodes: int = 0
    last_line: int = 0
    """Where the last value ended."""

    def document(self) -> Node:
        next(self.events)  # the stream's start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            location = Location(self.source, 0, 0)
            raise _FatalError(_Mistake(location, (), "the file is empty", "name a broker"))
        root = self.node(next(self.events), (), 0, self.is_secret)
        next(self.events)  # the document's end
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fatal(event, (), "a second document begins here", "keep one document in the file")
        return root

    def node(self, event: Any, path: tuple[str | int, ...], depth: int, is_secret: bool) -> Node:
        if depth > MAX_DEPTH:
            raise self.fatal(event, path, *_DEEP)
        kind = type(event)
        if kind is yaml.AliasEvent:
            return self.alias(event, path, is_secret)
        self.count(event, path, 1)
        if event.tag is not None:
            raise self.tag(event, path, is_secret)
        node = Node(self.location(event))
        if kind is yaml.ScalarEvent:
            node.scalar = resolve_scalar(event.value) if event.implicit[0] else event.value
            self.last_line = event.end_mark.line
        elif kind is yaml.MappingStartEvent:
            self.mapping(node, path, depth, is_secret)
        else:
            self.sequence(node, path, depth, is_secret)
        node.last_line = self.last_line
        if is_secret:
            self.keep_secret(node)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def alias(self, event: Any, path: tuple[str | int, ...], is_secret: bool) -> Node:
        node = self.anchors.get(event.anchor or "")
        if node is None:
            name = HIDDEN if is_secret else shown_value(event.anchor)
            message = f"alias {name} has no anchor before it"
            raise self.fatal(event, path, message, "put a text that begins with '*' in quotes")
        self.count(event, path, node.size)
        self.last_line = event.end_mark.line
        if is_secret:
            self.keep_secret(node)
        return node

    def tag(self, event: Any, path: tuple[str | int, ...], is_secret: bool) -> _FatalError:
        name = HIDDEN if is_secret else shown_value(event.tag)
        return self.fatal(event, path, f"tag {name} is not supported", "write plain values")

    def keep_secret(self, node: Node) -> None:
        """Redact a value in all messages, wherever it occurs."""
        self.has_secret = True
        self.source.hide(node.location.line, node.location.column, node.last_line)
        entries = node.entries or {}
        self.source.secrets.update(entries)
        for each in node.items or [entry.node for entry in entries.values()]:
            self.keep_secret(each)
        if node.scalar is not None:
            self.source.secrets.add(str(node.scalar))

    def mapping(self, node: Node, path: tuple[str | int, ...], depth: int, is_secret: bool) -> None:
        node.entries = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self.fatal(
                    event, path, "a key must be plain text", "write the key as a word, or in quotes"
                )
            if event.tag is not None:
                raise self.tag(event, path, is_secret)
            key, location = event.value, self.location(event)
            hides = is_secret or resembles_secret(key)
            self.has_secret = self.has_secret or hides
            entry = Entry(location, self.node(next(self.events), (*path, key), depth + 1, hides))
            if hides:
                entry.hide()
            first = node.entries.get(key)
            if first is not None:
                message = f"duplicate key {HIDDEN if is_secret else repr(shown_key(key))}"
                remedy = f"first used in line {first.key.line + 1}: keep one of them"
                self.mistakes.append(_Mistake(location, (*path, key), message, remedy))
                entry.hide()  # an unknown key may stand for a secret under any name
                continue
            node.entries[key] = entry
            node.size += entry.node.size
        self.ended(event)

    def sequence(self, node: Node, path: tuple[str | int, ...], depth: int, is_secret: bool) -> None:
        node.items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            child = self.node(event, (*path, len(node.items)), depth + 1, is_secret)
            node.items.append(child)
            node.size += child.size
        self.ended(event)

    def ended(self, event: Any) -> None:
        """Record the last line of a collection. In block style its end event marks the next one."""
        self.last_line = max(self.last_line, event.start_mark.line - 1)

    def count(self, event: yaml.Event, path: tuple[str | int, ...], size: int) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            raise self.fatal(event, path, f"more than {MAX_NODES} values", "use fewer aliases")

    def location(self, event: Any) -> Location:
        start, end = event.start_mark, event.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return Location(self.source, start.line, start.column, length if length > 0 else 1)

    def fatal(self, event: yaml.Event, path: tuple[str | int, ...], message: str, remedy: str) -> _FatalError:
        return _FatalError(_Mistake(self.location(event), path, message, remedy))
