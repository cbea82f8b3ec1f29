"""The capability matrix: which policy a system enforces at which of its doors."""

from collections.abc import Iterable, Iterator

from sluicegate.testing.conformance.door import Driver
from sluicegate.testing.conformance.suite import played


def matrix(driver: Driver) -> str:
    """A system's part, in Markdown: a table of policies and doors, and why some do not apply."""
    heads = ["policy", *driver.doors]
    rows = [
        [f"`{policy}`", *(driver.how(policy, door) for door in driver.doors)]
        for policy in sorted(driver.capabilities)
    ]
    counts = ["*scenarios*", *(str(len(list(played(driver, door)))) for door in driver.doors)]
    table = "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows, counts))
    return f"## {driver.system}\n\n{table}{''.join(_notes(driver))}"


def _notes(driver: Driver) -> Iterator[str]:
    for name, door in driver.doors.items():
        reasons = {
            policy: why
            for policy, why in door.without.items()
            if not why.startswith("not applicable") and policy in driver.capabilities
        }
        for policy, why in sorted(reasons.items()):
            yield f"\n{name}, `{policy}`: {why}.\n"
        for scenario, why in door.unplayed.items():
            yield f"\n{name}, scenario *{scenario}* is not played here: {why}.\n"


def matrices(drivers: Iterable[Driver]) -> str:
    """The parts of several systems."""
    return "\n".join(matrix(driver) for driver in drivers)
