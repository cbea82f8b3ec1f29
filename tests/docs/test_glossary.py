"""The glossary names code that exists, and each term once."""

import re
from importlib import import_module

import pytest
from tests.house.test_documents import ROOT

_TEXT = (ROOT / "docs" / "glossary.md").read_text()
_ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \|(?P<code>[^|]*)\|$", re.MULTILINE)
_HEADS = {"term", "---"}


def terms(section: str) -> list[str]:
    return [row["term"] for row in _ROW.finditer(section) if row["term"] not in _HEADS]


def names() -> list[str]:
    """Modules and classes of the third column, and all others in the text that begin like one."""
    return sorted(set(re.findall(r"`(sluicegate\w*(?:\.\w+)*)`", _TEXT)))


def resolve(name: str) -> object:
    """What a dotted name stands for.

    :raises ImportError: if no module of that name, nor of its beginning, exists.
    :raises AttributeError: if the module has nothing of that name.
    """
    path = name.split(".")
    if path[-1][:1].islower():
        return import_module(name)
    return getattr(import_module(".".join(path[:-1])), path[-1])


@pytest.mark.parametrize("name", names())
def test_what_a_term_names_in_the_code_exists(name: str) -> None:
    assert resolve(name) is not None


@pytest.mark.parametrize(
    ("name", "error"),
    [("sluicegate.engine.turnstile", ImportError), ("sluicegate.engine.gate.Turnstile", AttributeError)],
)
def test_names_that_do_not_exist_are_found(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve(name)


def test_terms_are_unique_and_in_order() -> None:
    sections = [terms(section) for section in _TEXT.split("\n## ")[1:]]
    every = [term for section in sections for term in section]
    assert len(every) > 50
    assert len(set(every)) == len(every)
    assert [section for section in sections if section != sorted(section, key=str.lower)] == []
