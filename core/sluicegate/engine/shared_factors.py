"""Factors that one worker computes for all that share limits."""

import json
from collections.abc import Callable, Sequence

from sluicegate.engine.factors import Factor
from sluicegate.engine.task import SharedTask


class SharedFactors(SharedTask):
    """What a task shares that sets factors, and nothing else that others need.

    :param factors: those that the task sets.
    :param apply: has a call done by the thread that owns the gates, as `BrokerContext.apply` does.
    """

    def __init__(self, factors: Sequence[Factor], apply: Callable[[Callable[[], None]], None]) -> None:
        self._factors = factors
        self._apply = apply

    def findings(self) -> str:
        """Value, reason and whether it is known, of each factor by name."""
        return json.dumps({each.name: [each.value, each.why, each.known] for each in self._factors})

    def take(self, findings: str, age_s: float) -> None:
        """Set the factors as the leader did; those that it does not have stay as they are.

        :raises ValueError: if it cannot be read; then none is changed.
        """
        by_name = json.loads(findings)
        try:
            if not isinstance(by_name, dict):
                raise TypeError(f"a {type(by_name).__name__}")
            news = [(each, *by_name[each.name]) for each in self._factors if each.name in by_name]
            for factor, value, why, known in news:
                Factor(factor.name, "").set(value, why, known=known)
        except TypeError as error:
            raise ValueError(f"factors {findings[:80]!r}, expected value, why and known by name") from error

        def set_all() -> None:
            for factor, value, why, known in news:
                factor.set(value, why, known=known)

        self._apply(set_all)
