"""Makes the holder of one worker from the `budgets` section."""

import json
from collections.abc import Callable
from secrets import token_hex
from time import monotonic_ns
from typing import TYPE_CHECKING, NoReturn

from sluicegate.budgets import BudgetStore, BudgetStoreError, Grant, Member, Place, Request, Standing, Turn
from sluicegate.config.models import Budgets
from sluicegate.leasing.away import Away
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.member_info import LED, LIMITS, NAME_IS_TAKEN, POLICIES
from sluicegate.leasing.places import PlaceHolder
from sluicegate.leasing.tokens import LeasedBuckets

if TYPE_CHECKING:
    from collections.abc import Sequence

_MS_NS = 1_000_000
_BUSIEST = 50
"""Limits that a member tells of."""


def holder_of(
    settings: Budgets,
    broker: str,
    open_store: Callable[[Budgets, str], BudgetStore],
    policies: Callable[[], str],
    worker: int = 0,
) -> Holder:
    """The holder of a worker; a store that cannot be used is one that is away.

    :param settings: the section.
    :param broker: name of the worker's broker.
    :param open_store: opens the store for a holder of places.
    :param policies: gives the version of the policies in force, as text.
    :param worker: index of the worker.
    """
    instance = token_hex(8)
    store: BudgetStore
    try:
        store = open_store(settings, instance)
    except BudgetStoreError as error:
        store = UnusableStore(error)
    lease_ns = settings.lease * _MS_NS
    tokens = LeasedBuckets(broker, lease_ns)

    def member() -> Member:
        info: dict[str, object] = {POLICIES: policies(), LIMITS: tokens.busiest(_BUSIEST, monotonic_ns())}
        if not holder.has_name:
            info[NAME_IS_TAKEN] = True
        if holder.led:
            info[LED] = sorted(holder.led)
        return Member(settings.gateway_name, f"{broker}/{worker}", instance, json.dumps(info))

    on_lost = settings.on_budget_lost
    own = f"{settings.gateway_name}/{broker}/{worker}"
    place_lease_ns = settings.place_lease * _MS_NS
    away = Away(on_lost, lease_ns, place_lease_ns, monotonic_ns())
    places = PlaceHolder(store, broker, own, place_lease_ns, on_lost, lambda: away.sharing, monotonic_ns)
    holder = Holder(store, tokens, places, away, member)
    return holder


class UnusableStore:
    """A budget store that never answers, as it could not be opened.

    :param error: why.
    """

    def __init__(self, error: BudgetStoreError) -> None:
        self._text = str(error)

    async def reserve(self, requests: "Sequence[Request]") -> "Sequence[Grant]":
        """Fail."""
        self._fail()

    async def hold(self, places: "Sequence[Place]") -> "Sequence[int]":
        """Fail."""
        self._fail()

    async def release(self, places: "Sequence[Place]") -> None:
        """Fail."""
        self._fail()

    async def taken(self, limits: "Sequence[str]") -> "Sequence[int]":
        """Fail."""
        self._fail()

    async def join(self, member: Member) -> int:
        """Fail."""
        self._fail()

    async def leave(self) -> None:
        """Nothing to leave."""

    async def members(self) -> "Sequence[Member]":
        """Fail."""
        self._fail()

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """Fail."""
        self._fail()

    async def publish(self, task: str, findings: str) -> bool:
        """Fail."""
        self._fail()

    async def standings(self) -> "Sequence[Standing]":
        """Fail."""
        self._fail()

    async def close(self) -> None:
        """Nothing to end."""

    def _fail(self) -> NoReturn:
        raise BudgetStoreError(self._text)
