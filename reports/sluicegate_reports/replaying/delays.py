"""The effect of a candidate's delays, computed from sums, as order does not matter for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate.model import ANONYMOUS, EffectivePolicies
from sluicegate.policies.delay import FIXED_DELAY, MAX_DELAY
from sluicegate_reports.replaying.candidate import Candidate, Engine
from sluicegate_reports.replaying.tally import KEY_COLUMNS, Key


@dataclass(frozen=True, slots=True)
class Later:
    """Messages that a fixed delay would have delivered later."""

    key: Key
    messages: int
    """Published then, refused ones too."""
    delay_ms: float


@dataclass(frozen=True, slots=True)
class TooLate:
    """Messages that were refused for the delay that they asked for, asked again."""

    key: Key
    refused: int
    still: int
    """Refused by the candidate too."""
    asked_ms: float
    """The longest delay that was asked for among them."""
    recorded_ms: float
    """The limit that was in force then."""
    limit_ms: float
    """The candidate's; 0 is unlimited."""

    @property
    def others(self) -> str:
        """What the candidate would do to those that were admitted."""
        if not self.limit_ms or self.limit_ms >= self.recorded_ms:
            return "none would be refused"
        return "not known: the log does not tell what they asked for"


def refused_for_delay(decisions: DataFrame) -> DataFrame:
    """Recorded refusals of too long a delay, by what was asked for: the key, `asked`, `limit`, `refused`."""
    rows = decisions.where((F.col("policy") == MAX_DELAY) & (F.col("action") == "reject"))
    by = rows.groupBy(*KEY_COLUMNS, F.col("current").alias("asked"), F.col("limit"))
    return by.agg(F.sum("decisions").alias("refused"))


class Delays:
    """The delays of a candidate.

    :param candidate: the policies to try.
    """

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._engines: dict[tuple[str, str], Engine | None] = {}

    def later(self, totals: Iterable[Mapping[str, Any]]) -> Iterator[Later]:
        """What a fixed delay would do.

        :param totals: rows of `replaying.tally.SCHEMA` without a policy.
        """
        for row in totals:
            key = _key(row)
            policies = self._policies(key) if row["operation"] == "publish" else None
            delay_ms = policies.number(FIXED_DELAY) if policies is not None else 0
            if delay_ms:
                yield Later(key, row["messages"], delay_ms)

    def too_late(self, refused: Iterable[Mapping[str, Any]]) -> Iterator[TooLate]:
        """What another limit of the delay asked for would do.

        :param refused: rows of `refused_for_delay`.
        """
        groups: dict[Key, list[Mapping[str, Any]]] = {}
        for row in refused:
            groups.setdefault(_key(row), []).append(row)
        for key, rows in groups.items():
            policies = self._policies(key)
            if policies is None:
                continue
            # Without effect while a fixed delay is set, which takes the place of what was asked for.
            limit = 0.0 if policies.number(FIXED_DELAY) else policies.number(MAX_DELAY)
            asked = [(row["asked"] or 0.0, row["refused"]) for row in rows]
            yield TooLate(
                key,
                sum(count for _, count in asked),
                sum(count for ms, count in asked if limit and ms > limit),
                max(ms for ms, _ in asked),
                max(row["limit"] or 0.0 for row in rows),
                limit,
            )

    def _policies(self, key: Key) -> EffectivePolicies | None:
        system, _, gateway, namespace, topic, principal, _ = key
        entry_key = (system, gateway)
        if entry_key not in self._engines:
            entry = self._candidate.entry(system, gateway)
            self._engines[entry_key] = Engine(entry, self._candidate.modules) if entry else None
        engine = self._engines[entry_key]
        if engine is None:
            return None
        return engine.gate(topic, namespace, principal or ANONYMOUS, 0).policies


def _key(row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in KEY_COLUMNS)
