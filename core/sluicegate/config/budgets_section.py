"""The `budgets` section: the store by which several gateways and workers share limits."""

from platform import node
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import Duration, refuse

OnBudgetLost: TypeAlias = Literal["share", "open", "pause"]


class Budgets(Strict):
    """Limits that several gateways share; a URL alone stands for a section with defaults."""

    url: str = Field(min_length=1)
    """URL of the store: redis://HOST:6379/0, rediss:// for TLS, redis+sentinel://HOST:26379/SERVICE,
    redis+cluster://HOST:6379, or one that a plugin knows."""
    name: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    """Name of the fleet: gateways of other names in the same store share nothing with this one."""
    gateway: str = Field(default="", max_length=250)
    """Name of this gateway, which no other one of the fleet has; the name of its host if unset."""
    lease: Duration = Field(default=200, gt=0)
    """How long leased tokens can be spent; the same at all gateways of the fleet."""
    place_lease: Duration = Field(default=3_000, gt=0)
    """How long a counted client keeps its place after its gateway has fallen silent; the same at all
    gateways."""
    timeout: Duration = Field(default=20, gt=0)
    """How long a call to the store may take; nothing is tried again."""
    on_budget_lost: OnBudgetLost = "share"
    """What a gateway does while the store does not answer. share: it spends its share of each limit, that
    is the limit divided by the members last known; open: no shared limit applies; pause: messages under
    shared limits wait."""

    @property
    def gateway_name(self) -> str:
        """Name of this gateway, with the default filled in."""
        return self.gateway or node()

    @model_validator(mode="after")
    def _leaves_time_to_renew(self) -> Self:
        if not 40 <= self.lease <= 10_000:
            raise refuse(f"'lease' is {self.lease} ms", "write a lease from 40ms to 10s, such as 200ms")
        if 4 * self.timeout > self.lease:
            raise refuse(
                f"'timeout' is {self.timeout} ms: a call that is late leaves no time to renew a lease of "
                f"{self.lease} ms",
                "write a timeout of at most a quarter of the lease, or a longer lease",
            )
        if self.place_lease < 1_500:
            raise refuse(
                f"'place_lease' is {self.place_lease} ms, and members say once a second that they are there",
                "write 1500ms or more",
            )
        return self


def _section(data: object) -> object:
    return {"url": data} if isinstance(data, str) else data


UrlOrBudgets: TypeAlias = Annotated[Budgets, BeforeValidator(_section, json_schema_input_type=str | Budgets)]
"""A section, or its URL alone."""
