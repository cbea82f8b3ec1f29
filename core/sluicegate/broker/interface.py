"""Checks what subclasses of the base classes define, when Python creates the class.

A misspelt method would otherwise never be called, and nobody would notice.
"""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from inspect import Parameter, iscoroutinefunction, signature
from types import FunctionType, MemberDescriptorType
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HELPER = "is_helper_of_a_broker_room"


class InterfaceError(TypeError):
    """A class defines something that its base class does not have, or has otherwise."""


def helper(function: _Function) -> _Function:
    """Mark a public method or property as the plugin's own, which the gateway does not call.

    It is needed only in subclasses of `BaseDriver`, `BaseFront` and `BaseSession`, and only if the name does
    not begin with an underscore. For a property it stands below `@property`.
    """
    setattr(function, _HELPER, True)
    return function


class Interface:
    """A base class whose subclasses may override its public members and add none but helpers."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Check the public members that the class itself defines.

        :raises InterfaceError: for the first that no base class has, or that differs from the base's.
        """
        super().__init_subclass__(**options)
        if cls.__module__.rpartition(".")[0] == __package__:
            return  # the base classes themselves
        for name, member in vars(cls).items():
            if not (name.startswith("_") or isinstance(member, MemberDescriptorType)):
                _check(cls, name, member)


def _check(cls: type, name: str, member: object) -> None:
    for base in cls.__mro__[1:]:
        if name in vars(base):
            _compare(cls, base, name, member)
            return
        if name in vars(base).get("__annotations__", ()):
            return
    if _is_helper(member):
        return
    known = sorted(set(_names(cls)))
    nearest = get_close_matches(name, known, n=1, cutoff=0)
    raise InterfaceError(
        f"{_title(cls)} defines {name}, which no base class has; the nearest is {nearest[0]}: correct the "
        f"name, or begin it with an underscore; a method that other modules use can be marked @helper"
    )


def _compare(cls: type, base: type, name: str, member: object) -> None:
    """Check a member against the one that it overrides."""
    inherited = vars(base)[name]
    if isinstance(inherited, property):
        if isinstance(member, FunctionType):
            raise InterfaceError(
                f"{_title(cls)}.{name} is a method, but a property in {base.__name__}: add @property"
            )
    elif isinstance(inherited, FunctionType):
        if not isinstance(member, FunctionType):
            raise InterfaceError(
                f"{_title(cls)}.{name} is no method, expected {_shown(base, name, inherited)}"
            )
        if not _accepts(member, inherited):
            raise InterfaceError(
                f"{_title(cls)} defines {_shown(cls, name, member)}, "
                f"expected the signature of {_shown(base, name, inherited)}"
            )


def _accepts(member: Callable[..., Any], inherited: Callable[..., Any]) -> bool:
    """Whether a method can be called as the inherited one: same names in the same order, more only optional.

    Leading underscores of names, which mark what is not used, make no difference.
    """
    if iscoroutinefunction(member) is not iscoroutinefunction(inherited):
        return False
    own = list(signature(member).parameters.values())
    rest = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
    if rest <= {each.kind for each in own}:
        return True
    expected = [(each.name, each.kind) for each in signature(inherited).parameters.values()]
    more = own[len(expected) :]
    return [(each.name.lstrip("_"), each.kind) for each in own[: len(expected)]] == expected and all(
        each.default is not Parameter.empty or each.kind in rest for each in more
    )


def _is_helper(member: object) -> bool:
    function = member.fget if isinstance(member, property) else member
    return bool(getattr(function, _HELPER, False))


def _names(cls: type) -> Iterator[str]:
    """Public names that a subclass may define."""
    for base in cls.__mro__[1:]:
        if base is not object:
            for name in (*vars(base), *vars(base).get("__annotations__", ())):
                if not name.startswith("_"):
                    yield name


def _title(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _shown(cls: type, name: str, function: Callable[..., Any]) -> str:
    """A method with its parameters, as one writes it."""
    word = "async " if iscoroutinefunction(function) else ""
    return f"{word}{cls.__name__}.{name}({', '.join(signature(function).parameters)})"
