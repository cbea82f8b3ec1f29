"""The table of scenarios, by theme."""

from typing import Final

from sluicegate.testing.conformance.scenarios import Scenario
from sluicegate.testing.conformance.table.attaching import ATTACHING
from sluicegate.testing.conformance.table.contents import CONTENTS
from sluicegate.testing.conformance.table.delivering import DELIVERING
from sluicegate.testing.conformance.table.publishing import PUBLISHING
from sluicegate.testing.conformance.table.scopes import SCOPES

SCENARIOS: Final[tuple[Scenario, ...]] = (*ATTACHING, *PUBLISHING, *CONTENTS, *DELIVERING, *SCOPES)
"""All scenarios; their names are unique."""
