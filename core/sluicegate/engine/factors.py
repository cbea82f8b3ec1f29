"""Quota factors: the share of the allowed rates that the state of a broker leaves.

A factor multiplies every publish quota; factors and quotas are independent. Each factor has its own bucket
for each quota, so that releasing one never releases another.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any

from sluicegate.engine.faults import CAUGHT, shown
from sluicegate.engine.switch import Switch
from sluicegate.model import EffectivePolicies

_REMEMBERED = 64
"""How many changes a limit can catch up on at its next use."""


class Factor:
    """One reason to allow less than the quotas do. It starts at 1.0, without effect.

    Only the thread that owns the gates may set it (`BrokerContext.apply`).

    :param name: what decisions, metrics and options (`mode.NAME`) call it, in snake_case.
    :param text: what clients are advised to do, a sentence; or what gives it when one is refused.
    """

    __slots__ = ("_recent", "_text", "changes", "known", "name", "switch", "value", "why")

    def __init__(self, name: str, text: str | Callable[[], str]) -> None:
        self.name = name
        self._text = text
        self.value = 1.0
        """Remaining share of each quota, 0.0 to 1.0: 1.0 restricts nothing, 0.0 stops everything."""
        self.why = ""
        """Why it has this value, a clause for texts: `volume 1 is 95 % full`."""
        self.known = True
        """False while the value stands in for data that is missing."""
        self.switch = Switch()
        """On while the value is below 1.0."""
        self.changes = 0
        """How often the value changed."""
        self._recent: deque[float] = deque((1.0,), _REMEMBERED)

    @property
    def text(self) -> str:
        """The advice for clients; the factor applies even if the function for it fails."""
        if isinstance(self._text, str):
            return self._text
        try:
            advice = self._text()
        except CAUGHT as error:  # a check that raised would let pass what must be held
            return f"There is no advice ({type(error).__name__})."
        return advice if isinstance(advice, str) else f"There is no advice ({shown(advice)})."

    def set(self, value: float, why: str, *, known: bool = True) -> None:
        """Set the value; gates are not recompiled.

        :param value: 0.0 to 1.0.
        :param why: see the attribute.
        :param known: False if data is missing and this value applies meanwhile.
        :raises ValueError: if the value is no number from 0 to 1, or the reason is no text; nothing changes.
        """
        given: Any = value
        if not (isinstance(given, Real) and 0 <= float(given) <= 1):
            raise ValueError(f"factor {self.name} cannot be {shown(given)}, expected 0.0 to 1.0")
        given = why
        if not isinstance(given, str):
            raise ValueError(f"factor {self.name} has reason {shown(given)}, expected text")
        if value != self.value:
            self.value = float(value)
            self.changes += 1
            self._recent.append(self.value)
        self.why = why
        self.known = bool(known)
        self.switch.set(self.value < 1)

    def lowest_since(self, changes: int) -> float:
        """The lowest value since a number of changes; 0 if that is too long ago.

        :param changes: the value of `changes` at that time.
        """
        passed = self.changes - changes + 1
        if passed > len(self._recent):
            return 0.0
        return min(list(self._recent)[-passed:])


class Factors:
    """All factors of one broker.

    :param factors: in any order; more may be added.
    :raises ValueError: if two have one name.
    """

    def __init__(self, factors: Iterable[Factor] = ()) -> None:
        self._by_name: dict[str, Factor] = {}
        for factor in factors:
            self.add(factor)

    def add(self, factor: Factor) -> None:
        """Add a factor.

        :raises ValueError: if there is one of its name, or if it has none.
        """
        if not (factor.name and isinstance(factor.name, str)):
            raise ValueError(f"a factor has name {shown(factor.name)}, expected text such as 'my_factor'")
        if factor.name in self._by_name:
            raise ValueError(f"there is a factor {factor.name!r} already, expected another name")
        self._by_name[factor.name] = factor

    def get(self, name: str) -> Factor | None:
        """The factor of this name."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Factor]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def minimum(self, policies: EffectivePolicies | None = None) -> float:
        """The smallest value: the share of each quota that all of them leave.

        :param policies: factors that do not apply to everybody are left out.
        """
        return min((factor.value for factor in self if not _is_on_trial(factor, policies)), default=1.0)


def _is_on_trial(factor: Factor, policies: EffectivePolicies | None) -> bool:
    return policies is not None and not policies.enforces(factor.name)
