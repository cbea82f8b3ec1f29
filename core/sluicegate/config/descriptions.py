"""Descriptions of the fields of models: the text below each, read from the source when it is asked for.

pydantic can read them as well, but does so whenever a class is made: it would double the time of a start.
"""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel


@cache
def descriptions(model: type[BaseModel]) -> Mapping[str, str]:
    """What the fields of a model and of its bases mean, by name.

    A field of a model that is made at run time has no source: its `Field(description=…)` counts.
    """
    texts: dict[str, str] = {}
    for described in (*getattr(model, "described_by", ()), *reversed(model.__mro__)):
        if issubclass(described, BaseModel) and described is not BaseModel:
            texts.update(_below_fields(described))
    declared = {name: info.description for name, info in model.model_fields.items()}
    return {**texts, **{name: text for name, text in declared.items() if text}}


def _below_fields(model: type[BaseModel]) -> dict[str, str]:
    try:
        (defined,) = ast.parse(dedent(inspect.getsource(model))).body
    except (OSError, TypeError):  # it was made at run time, and has only fields of its bases
        return {}
    assert isinstance(defined, ast.ClassDef)  # noqa: S101 - the source of a class
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(defined.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
