"""Bounded samples of principals and of client ids: the busiest are named, all others are `other`.

Once a second the totals of each client are compared with those of the last sample.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import sub
from typing import Any

from sluicegate.engine.client_totals import COUNTS, ClientTotals
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import BrokerState
from sluicegate.runtime.busiest import BusiestNames
from sluicegate.runtime.labels import OTHER, label
from sluicegate.runtime.limits import PRINCIPAL_QUOTAS, Limits
from sluicegate.runtime.recent import SECONDS, Recent

NAMED = 100
"""Principals, and client ids, that have a name of their own."""
_SLICE = 256
_REVIEW = 60
"""Samples between two looks at who is the busiest."""
_NONE = (0,) * len(COUNTS)
_OPERATIONS = ("published_messages", "dispatched_messages", "refused", "delayed")
_WEIGHED = tuple(COUNTS.index(name) for name in _OPERATIONS)


class ClientSamples:
    """The last samples of one worker's principals and clients.

    :param broker: has the totals.
    :param limits: gives principals' quotas.
    :param named: how many of each are named.
    """

    def __init__(self, broker: BrokerState, limits: Limits, named: int = NAMED) -> None:
        self.principals: dict[str, dict[str, Any]] = {}
        """By principal: `COUNTS`, `held` now, and `use`, which has the form of a topic's (`use`)."""
        self.clients: dict[str, dict[str, Any]] = {}
        """By client id: `COUNTS`, and `held` now."""
        self.published = (0, 0)
        """Messages and bytes that all principals published who are not exempt."""
        self._clients = broker.clients
        self._limits = limits
        self._idle: set[ClientTotals] = set()
        """Those that did nothing since the last review."""
        self._by_principal = BusiestNames(len(COUNTS), _WEIGHED, named)
        self._by_client = BusiestNames(len(COUNTS), _WEIGHED, named)
        self._quotas = PrincipalQuotas(limits)
        self._samples = 0

    async def refresh(self, now_ns: int) -> None:
        """Take samples.

        :param now_ns: monotonic time.
        """
        held_of_principals: Counter[str] = Counter()
        held_of_clients: Counter[str] = Counter()
        exempt = self._limits.policies().exempt_principals
        for index, totals in enumerate(self._clients):
            self._take(totals, is_exempt=totals.principal in exempt)
            if totals.held:
                held_of_principals[totals.principal] += totals.held
                held_of_clients[totals.client_id] += totals.held
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        self._samples += 1
        is_review = self._samples % _REVIEW == 0
        if is_review:
            self._review()
        principals = _samples(self._by_principal, held_of_principals)
        for name, use in self._quotas.use(self._by_principal.named, now_ns, ask_again=is_review):
            principals[label(name)]["use"] = use
        self.principals, self.clients = principals, _samples(self._by_client, held_of_clients)

    def _take(self, totals: ClientTotals, *, is_exempt: bool) -> None:
        counts = totals.counts()
        if counts == totals.counted:
            return
        gained = tuple(map(sub, counts, totals.counted))
        self._by_principal.add(totals.principal, gained)
        self._by_client.add(totals.client_id, gained)
        if not is_exempt:
            self.published = self.published[0] + gained[0], self.published[1] + gained[1]
        totals.counted = counts
        self._idle.discard(totals)

    def _review(self) -> None:
        """Choose who is named, and let go of clients that did nothing since the last review."""
        self._by_principal.review()
        self._by_client.review()
        self._clients.make_room(
            totals for totals in self._idle if not totals.held and totals.counts() == totals.counted
        )
        self._idle = set(self._clients.kept())


class PrincipalQuotas:
    """The use of the quotas of principals.

    :param limits: gives the quotas; plugins are asked, so the answers are kept for a while.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._version = -1
        self._known: dict[str, Quota | None] = {}
        self._recent: dict[str, Recent] = {}

    def use(
        self, named: Mapping[str, tuple[int, ...]], now_ns: int, *, ask_again: bool
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Take a reading of all named principals.

        :param named: their sums, which begin with messages and bytes published.
        :param now_ns: monotonic time.
        :param ask_again: whether to ask for quotas that are known.
        :return: those with a quota, and the use of it. A quota that several share is used by all of them.
        """
        if ask_again or self._version != self._limits.version:
            self._version = self._limits.version
            self._known.clear()
        self._known = {
            name: self._known[name] if name in self._known else self._limits.quota(name) for name in named
        }
        self._recent = {name: self._recent.get(name) or Recent() for name in named}
        used: dict[str, list[list[float]]] = {}
        for name, sums in named.items():
            recent, quota = self._recent[name], self._known[name]
            recent.read(now_ns, *sums[:2])
            if quota is not None:
                of_share = used.setdefault(quota.share, [[0.0, 0.0], [0.0, 0.0]])
                for of_window, rates in zip(of_share, (recent.rates(1), recent.rates(SECONDS)), strict=True):
                    of_window[0] += rates[0]
                    of_window[1] += rates[1]
        left = self._limits.factors.minimum(self._limits.broker()) if used else 1.0
        for name, quota in self._known.items():
            if quota is not None:
                yield name, _use_of(quota, left, *used[quota.share])


def _use_of(quota: Quota, left: float, used_1s: list[float], used_10s: list[float]) -> dict[str, Any]:
    values = (quota.messages_per_s, quota.bytes_per_s)
    return {
        policy: {
            "limit": values[index],
            "in_force": values[index] * left,
            "used_1s": round(used_1s[index], 3),
            "used_10s": round(used_10s[index], 3),
        }
        for index, policy in enumerate(PRINCIPAL_QUOTAS)
        if values[index]
    }


def _samples(names: BusiestNames, held: Counter[str]) -> dict[str, dict[str, Any]]:
    samples = {name: _sample(sums) for name, sums in names.labelled().items()}
    for name, count in held.items():
        key = label(name) if name in names.named else OTHER
        samples.setdefault(key, _sample(_NONE))["held"] += count
    return samples


def _sample(sums: tuple[int, ...]) -> dict[str, Any]:
    return {**dict(zip(COUNTS, sums, strict=True)), "held": 0}
