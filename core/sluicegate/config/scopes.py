"""`for` of the file: whose operations some policies are for."""

from typing import Final, Self

from pydantic import model_validator

from sluicegate.config.name_list import NameList, split_names
from sluicegate.config.strict import Strict
from sluicegate.config.units import refuse
from sluicegate.model import Scope

FOR: Final = "for"
"""The key."""


class ScopeNames(Strict):
    """Whose operations some policies are for: of each list that is set, a name must match."""

    principals: NameList | None = None
    """Authenticated principals, as the broker names them, with `*` for any characters."""
    clients: NameList | None = None
    """Client ids, with `*` for any characters. A client chooses its id."""
    groups: NameList | None = None
    """Subscriptions or consumer groups, with `*` for any characters; only consumers have one."""

    @model_validator(mode="after")
    def _names_somebody(self) -> Self:
        for kind, names in self:
            if names is not None and not names:
                raise refuse(f"'{kind}' is empty, so it matches nobody", "name some, or remove it")
        if not self.scope:
            raise refuse("'for' names nobody", "write principals, clients or groups below it")
        return self

    @property
    def scope(self) -> Scope:
        """The same for the engine."""
        return Scope(*(split_names(names or "") for names in (self.principals, self.clients, self.groups)))
