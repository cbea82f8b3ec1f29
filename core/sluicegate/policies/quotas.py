"""Publish quotas over all topics of a gateway: of all principals together, and of each principal.

Quotas are stable values; factors reduce them in separate checks (`factors`). Every limit has its own bucket.
An operation must pass all of them before any is charged, so the smallest limit applies, and none is charged
for an operation that another one holds.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from sluicegate.broker import BrokerContext
from sluicegate.config import ByteRate, MessageRate, PolicyModel
from sluicegate.config.models import OnLimit
from sluicegate.engine.check import Check
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.engine.topic_context import TopicContext
from sluicegate.hooks import hookimpl
from sluicegate.model import ENFORCE, EffectivePolicies, Mode, Operation, TopicName, shortened
from sluicegate.policies.factors import factor_checks
from sluicegate.policies.quota_limit import TOGETHER, QuotaLimit, all_principals, its_principal
from sluicegate.policies.rate import BURST_SECONDS, DEFAULT_BURST_SECONDS
from sluicegate.policies.shares import MOST, Share, Shares

EACH = ("principal_publish_quota", "principal_publish_quota_bytes")
_EVERY = (*TOGETHER, *EACH)
_LONGEST_PRINCIPAL = 250
"""Characters of a principal in the name of its bucket."""


class QuotaPolicies(PolicyModel):
    """Limits on publishing over all topics of a broker."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = dict.fromkeys(_EVERY, ("delay", "reject"))
    broker_only: ClassVar[frozenset[str]] = frozenset(_EVERY)

    publish_quota: MessageRate | None = None
    """Messages per second that all principals together can publish to this broker through this gateway; 0 is
    unlimited. Exempt principals neither count nor wait."""
    publish_quota_bytes: ByteRate | None = None
    """Bytes per second that all principals together can publish to this broker through this gateway; 0 is
    unlimited."""
    principal_publish_quota: MessageRate | None = None
    """Messages per second that each principal can publish over all topics; 0 is unlimited. Entries in
    `quotas` of the broker override it for single principals."""
    principal_publish_quota_bytes: ByteRate | None = None
    """Bytes per second that each principal can publish over all topics; 0 is unlimited."""


class _Part(NamedTuple):
    """What a topic takes of a quota."""

    mask: tuple[bool, bool]
    """Whether it takes messages, and bytes."""
    mode: Mode
    """To whom these apply."""


class PrincipalQuotas:
    """The policies of one broker, with the buckets that all its topics share."""

    def __init__(self) -> None:
        self._shares = Shares("publish")
        self._known: dict[_Part, OrderedDict[str, Share | None]] = {}
        """The buckets of principals, for each part of a quota that topics take."""
        self._version = 0

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        """Add the quotas."""
        return QuotaPolicies

    @hookimpl
    def sluicegate_quota(self, principal: str, context: BrokerContext) -> Quota | None:
        """A principal's own entry, or the quota of each principal. Called after all other plugins."""
        for entry in getattr(context.config, "quotas", ()):
            if entry.principal == principal:
                return Quota(entry.messages, entry.bytes, share_name(principal))
        return quota_of_each(principal, context.policies)

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Check publishing against quotas, and against the rates and quotas that factors reduce."""
        if policies.version != self._version:
            self._known.clear()
            self._version = policies.version
        self._shares.buckets = context.buckets
        broker = context.context
        applied: list[QuotaLimit] = []
        on_trial: list[QuotaLimit] = []
        if _has_quotas(_EVERY, policies, broker):
            applied = self._limits(policies, context, ENFORCE)
            others = [mode for mode in policies.modes((*TOGETHER, *EACH)) if not mode.enforces]
            on_trial = [limit for mode in others for limit in self._limits(policies, context, mode)]
        checks = [check for limit in (*applied, *on_trial) for check in limit.checks()]
        if broker is not None and broker.factors:
            checks += factor_checks(policies, context, broker, applied)
        return checks

    def _limits(self, policies: EffectivePolicies, state: TopicState, mode: Mode) -> list[QuotaLimit]:
        """The quotas that apply to a topic, the common one first."""
        limits = []
        part = _part(TOGETHER, policies, mode)
        messages, nbytes = (policies.number(name) for name in TOGETHER)
        together = Quota(messages, nbytes)
        share = self._share("of all", together, part, policies, state.context, state.now_ns)
        if share is not None:
            limits.append(
                QuotaLimit(
                    TOGETHER, policies, lambda op, now_ns: share, all_principals, mask=part.mask, mode=mode
                )
            )
        part = _part(EACH, policies, mode)
        if any(part.mask) and _has_quotas(EACH, policies, state.context):
            known = self._known.setdefault(part, OrderedDict())
            share_of = partial(self._share_of, known, part, policies, state.context)
            limits.append(QuotaLimit(EACH, policies, share_of, its_principal, mask=part.mask, mode=mode))
        return limits

    def _share_of(
        self,
        known: OrderedDict[str, Share | None],
        part: _Part,
        policies: EffectivePolicies,
        context: TopicContext | None,
        op: Operation,
        now_ns: int,
    ) -> Share | None:
        """The bucket of an operation's principal; None if it has no quota."""
        principal = op.principal
        if principal in known:
            known.move_to_end(principal)
            return known[principal]
        quota = quota_of_each(principal, policies) if context is None else context.quota(principal)
        share = None
        if quota is not None:
            share = self._share(f"share {quota.share}", quota, part, policies, context, now_ns)
        if len(known) >= MOST:
            known.popitem(last=False)
        known[principal] = share
        return share

    def _share(
        self,
        owner: str,
        quota: Quota,
        part: _Part,
        policies: EffectivePolicies,
        context: TopicContext | None,
        now_ns: int,
    ) -> Share | None:
        """The bucket of a part of a quota; None if that is unlimited.

        Each part has its own bucket, so that no topic changes the one of topics that take another part.
        """
        messages, nbytes = quota.messages_per_s * part.mask[0], quota.bytes_per_s * part.mask[1]
        if not messages and not nbytes:
            return None
        name = part.mode.own(owner)
        if messages != quota.messages_per_s:
            name = f"bytes {name}"
        elif nbytes != quota.bytes_per_s:
            name = f"messages {name}"
        return self._shares.get(name, Quota(messages, nbytes), burst_seconds(policies, context), now_ns)


def _part(names: Iterable[str], policies: EffectivePolicies, mode: Mode) -> _Part:
    messages, nbytes = (policies.mode(name) == mode for name in names)
    return _Part((messages, nbytes), mode)


def _has_quotas(names: Iterable[str], policies: EffectivePolicies, context: TopicContext | None) -> bool:
    """Whether policies of these names, the broker's entry or other plugins may give anyone a quota."""
    if any(policies.values.get(name) for name in names):
        return True
    return context is not None and (
        context.plugins_give_quotas or bool(getattr(context.config, "quotas", ()))
    )


def quota_of_each(principal: str, policies: EffectivePolicies) -> Quota | None:
    """The quota that policies set for each principal; None if unlimited."""
    messages, nbytes = (policies.number(name) for name in EACH)
    return Quota(messages, nbytes, share_name(principal)) if messages or nbytes else None


def share_name(principal: str) -> str:
    """The name of a principal's bucket."""
    return f"principal {shortened(principal, _LONGEST_PRINCIPAL)}"


def burst_seconds(policies: EffectivePolicies, context: TopicContext | None) -> float:
    """The burst of the broker level; a topic's own burst does not apply to shared quotas."""
    level = context.policies if context is not None else policies
    return level.number(BURST_SECONDS) or DEFAULT_BURST_SECONDS
