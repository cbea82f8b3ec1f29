"""The expressions of rules and dashboards, and the metrics and labels that they use."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
RULES = DEPLOY / "prometheus" / "rules.yml"
_VARIABLES = {"$__rate_interval": "5m", "$broker": ".*", "$topic": "orders"}
_WORDS = frozenset({"and", "bool", "offset", "or", "unless"})


def dashboards() -> Mapping[str, dict[str, Any]]:
    """The dashboards by file name."""
    return {path.name: json.loads(path.read_text()) for path in DASHBOARDS}


def expressions() -> Iterator[str]:
    """All expressions, with Grafana's variables filled in."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    for board in dashboards().values():
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield filled(target["expr"])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield filled(variable["query"]["query"].removeprefix("label_values(").rpartition(",")[0])


def filled(expression: str) -> str:
    """An expression as Grafana sends it."""
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def series(expression: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The metrics of an expression, each with the labels that it is chosen by."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    plain = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", plain)
    plain = re.sub(r"\[[^\]]*\]|\boffset\s+\w+", " ", plain)
    for name, labels in re.findall(r"(?<![\w.$])([a-zA-Z_]\w*)(?!\w*\s*\()\s*(\{[^}]*\})?", plain):
        if name not in _WORDS and "{" not in name and not _is_label(plain, name):
            yield name, frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))


def _is_label(plain: str, name: str) -> bool:
    """Whether a name only stands within braces."""
    return name not in re.sub(r"\{[^}]*\}", " ", plain)
