"""Quota factor `prometheus_factor`: publishing slows down as a Prometheus query says, and stops at 0."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import ClassVar
from urllib.parse import quote

from pydantic import Field

from sluicegate.api import (
    BrokerContext,
    Duration,
    Factor,
    HttpError,
    PolicyModel,
    SharedFactors,
    Task,
    hookimpl,
    http_get,
)

NAME = "prometheus_factor"
URL, INTERVAL, TIMEOUT = f"{NAME}_url", f"{NAME}_interval", f"{NAME}_timeout"
LARGEST_ANSWER = 64 * 1024
"""Bytes: one number needs no more."""
_UNUSABLE = (HttpError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)
"""What asking, or reading a strange answer, raises."""


class PrometheusFactorPolicies(PolicyModel):
    """The fields that this plugin adds to `policies: broker:`; None is unset."""

    parameters: ClassVar[frozenset[str]] = frozenset({URL, INTERVAL, TIMEOUT})
    broker_only: ClassVar[frozenset[str]] = parameters | {NAME}
    on_unknown_policies: ClassVar[frozenset[str]] = frozenset({NAME})
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {INTERVAL: 15_000, TIMEOUT: 3_000}

    prometheus_factor: str | None = Field(
        default=None, description="Query that gives what is left of all publish rates, 0 to 1."
    )
    prometheus_factor_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/\s]+(/\S*)?$",
        description="Address of Prometheus, such as http://prometheus:9090.",
    )
    prometheus_factor_interval: Duration | None = Field(
        default=None, gt=0, description="Time between two queries; 15s if unset."
    )
    prometheus_factor_timeout: Duration | None = Field(
        default=None, gt=0, description="Longest time for an answer; 3s if unset."
    )


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    return PrometheusFactorPolicies


@hookimpl
def sluicegate_quota_factors(context: BrokerContext) -> Sequence[Factor]:
    factor = Factor(NAME, "Publish less, or try again later.")
    if _question(context) and _on_unknown(context) != "open":
        factor.set(0.0, "Prometheus has not answered yet", known=False)
    return [factor]


@hookimpl
def sluicegate_tasks(context: BrokerContext) -> Sequence[Task]:
    factor = context.factors.get(NAME)
    if factor is None:  # another plugin has one of this name
        return []
    # Policies are read again each time, so that a change needs no restart.
    return [
        Task(
            NAME,
            lambda: int(context.policies.number(INTERVAL)),
            lambda: follow(context, factor),
            SharedFactors([factor], context.apply),
        )
    ]


async def follow(context: BrokerContext, factor: Factor) -> None:
    """Ask once, and bring the factor to what is answered."""
    question = _question(context)
    if not question:
        context.apply(lambda: factor.set(1.0, ""))
        return
    try:
        value = await ask(*question, context.policies.number(TIMEOUT) / 1000)
    except _UNUSABLE as error:
        why = f"Prometheus gives no factor ({error or type(error).__name__})"
        if why != factor.why:  # told once, not each time
            context.log.warning("%s: %s", NAME, why)
        held = {"pause": 0.0, "open": 1.0}.get(_on_unknown(context))
        # None is `last`: it stays as it is, which only the thread of the gates knows.
        context.apply(lambda: factor.set(factor.value if held is None else held, why, known=False))
    else:
        context.apply(lambda: factor.set(value, f"the query gives {value:.3g}" if value < 1 else ""))


async def ask(url: str, query: str, timeout_s: float) -> float:
    """What a query gives, 0.0 to 1.0; less counts as 0, more as 1.

    :raises HttpError: if there is no answer in time.
    :raises ValueError: if it is not one number; other exceptions if it is not an answer of Prometheus at all.
    """
    address = f"{url.rstrip('/')}/api/v1/query?query={quote(query, safe='')}"
    data = json.loads(await http_get(address, timeout_s=timeout_s, largest=LARGEST_ANSWER))["data"]
    found = data["result"]
    if data["resultType"] == "vector":
        if len(found) != 1:
            raise ValueError(f"the query gives {len(found)} series, expected one")
        found = found[0]["value"]
    value = float(found[1])
    if not isfinite(value):
        raise ValueError(f"the query gives {value}")
    return min(1.0, max(0.0, value))


def _question(context: BrokerContext) -> tuple[str, str] | None:
    """Address and query; None where the policies do not ask for this factor."""
    url, query = (context.policies.text(name, "") for name in (URL, NAME))
    return (url, query) if url and query else None


def _on_unknown(context: BrokerContext) -> str:
    return context.policies.text(f"on_unknown.{NAME}", "pause")
