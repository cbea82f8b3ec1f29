"""Broker rooms whose extra is not installed: skipped, and refused if a file uses them."""

from dataclasses import dataclass
from typing import Any

from pydantic import create_model, field_validator

from sluicegate.config.models import BrokerConfig
from sluicegate.config.units import refuse


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A kind of broker that this installation cannot serve."""

    plugin: str
    system: str
    """Value of `system:` in the file."""
    missing: tuple[str, ...]
    """Distributions that are not installed."""
    remedy: str
    """The command that installs them."""

    @property
    def problem(self) -> str:
        """Why it is left out, as text."""
        verb = "is" if len(self.missing) == 1 else "are"
        return f"{', '.join(self.missing)} {verb} not installed"

    @property
    def explanation(self) -> str:
        """Why, and what to do about it."""
        return f"{self.problem}; do: {self.remedy}"

    def refusing(self, model: type[BrokerConfig]) -> type[BrokerConfig]:
        """A model that accepts no entry of this kind, and says what to install; all other keys are checked.

        :param model: the kind's own.
        """

        def refuse_system(value: str) -> str:
            raise refuse(f"cannot serve system {value!r}: {self.problem}", self.remedy)

        make: Any = create_model  # its overloads cannot know a class that is made at run time
        made: type[BrokerConfig] = make(
            model.__name__,
            __base__=model,
            __doc__=model.__doc__,
            __validators__={"refuse_system": field_validator("system")(refuse_system)},
        )
        return made
