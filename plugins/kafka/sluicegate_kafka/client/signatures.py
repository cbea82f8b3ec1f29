"""Signatures of wrapped constructors: the original's, and the keywords that are added."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Wrapper = TypeVar("Wrapper", bound=type[Any])

_ADDED = (
    inspect.Parameter("policies", inspect.Parameter.KEYWORD_ONLY),
    inspect.Parameter("broker", inspect.Parameter.KEYWORD_ONLY, default=None),
)


def with_policies(original: type[Any]) -> Callable[[Wrapper], Wrapper]:
    """Have tools show the original's parameters besides those that are added."""

    def show(wrapper: Wrapper) -> Wrapper:
        signature = inspect.signature(original)
        kept = list(signature.parameters.values())
        catch_all = [each for each in kept if each.kind is inspect.Parameter.VAR_KEYWORD]
        named = [each for each in kept if each.kind is not inspect.Parameter.VAR_KEYWORD]
        wrapper.__signature__ = signature.replace(parameters=[*named, *_ADDED, *catch_all])
        return wrapper

    return show
