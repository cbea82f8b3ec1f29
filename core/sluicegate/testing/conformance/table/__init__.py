"""The table of scenarios, by theme."""

from typing import Final

from sluicegate.testing.conformance.scenarios import Scenario
from sluicegate.testing.conformance.table.attach_scenarios import ATTACHING
from sluicegate.testing.conformance.table.content_scenarios import CONTENTS
from sluicegate.testing.conformance.table.delivery_scenarios import DELIVERING
from sluicegate.testing.conformance.table.publish_scenarios import PUBLISHING
from sluicegate.testing.conformance.table.scope_scenarios import SCOPES

SCENARIOS: Final[tuple[Scenario, ...]] = (*ATTACHING, *PUBLISHING, *CONTENTS, *DELIVERING, *SCOPES)
"""All scenarios; their names are unique."""
