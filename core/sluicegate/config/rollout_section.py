"""The `rollout` section: how far a policy may go on its way from observed to enforced."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, field_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import Duration, refuse
from sluicegate.model.mode import Group, percent_in


def _percent(value: object) -> object:
    """Read `1%` as 0.01."""
    percent = percent_in(value.strip()) if isinstance(value, str) else None
    share = value if isinstance(value, float) else percent and percent / 100
    if share is None or not 0 < share < 1:  # NaN fails, too
        raise refuse(f"{value!r} is no share above 0% and below 100%", "write a percentage such as '1%'")
    return share


Percent: TypeAlias = Annotated[float, BeforeValidator(_percent, json_schema_input_type=float | str)]


class Rollout(Strict):
    """How policies are rolled out by `policies promote`."""

    budget: Percent = 0.01
    """Share of operations that a policy may refuse or hold, or would, to be promoted. A canary, or what was
    promoted less than `window` ago, is only observed again when it exceeds this."""
    window: Duration = Field(default=600_000, gt=0)
    """How long a mode is watched before the policy may be promoted."""
    steps: tuple[Percent, ...] = Field(default=(0.01, 0.1, 0.5), max_length=20)
    """Shares of the canaries, in this order."""
    group: Group = Group.PRINCIPALS
    """What the steps are shares of."""

    @field_validator("steps")
    @classmethod
    def _grow(cls, steps: tuple[float, ...]) -> tuple[float, ...]:
        if list(steps) != sorted(set(steps)):
            raise refuse("the steps do not grow", "write them in order, such as [1%, 10%, 50%]")
        return steps
