"""`sluicegate budgets`: the store of shared limits, as it stands now."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from sluicegate.budgets import BudgetStoreError, Member, Standing
from sluicegate.cli.aligning import aligned
from sluicegate.cli.opening import Opened, open_file
from sluicegate.cli.options import config_file
from sluicegate.config.models import Budgets
from sluicegate.config.secrets import shown_text
from sluicegate.leasing.member_info import LED, LIMITS, NAME_IS_TAKEN, POLICIES, member_info
from sluicegate.output import echo, echo_json

_DIMENSIONS = {"m": 0, "b": 1}
"""Which of a member's two rates belongs to a limit, by the end of the limit's name."""
_UNITS = {"m": "/s", "b": " B/s"}
_MOST_LIMITS, _MOST_SHARES = 50, 4
"""What is shown for people of many limits and of many workers: those with most demand, the largest shares."""


@click.group()
def budgets() -> None:
    """Show the limits that several gateways share."""


@budgets.command()
@config_file
@click.option("--all", "shows_all", is_flag=True, help="Show all limits, also those that nobody uses now.")
@click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")
def status(file: str, shows_all: bool, is_json: bool) -> None:
    """Show the budget store, who shares it, and how each limit stands.

    The store of FILE is asked, not a gateway, so this works on any host that reaches it. A member is a worker
    process of a gateway. `granted` and `shares` are what members were granted lately, a second; each member
    tells of its 50 busiest limits. `run by` names the member that runs a task for all. The 50 limits with
    most demand come first, with their 4 largest shares; --all shows the other limits, --json all shares.

    Marked are members with other policies than more than half of all, as the lowest limit wins while policies
    differ, and members whose name another gateway of the fleet has, too.
    """
    opened = open_file(file, os.environ)
    settings = opened.loaded.config.budgets
    if settings is None:
        raise click.ClickException(f"{file} has no `budgets`: its gateway shares limits with no other one")
    try:
        members, standings = asyncio.run(_asked(opened, settings))
    except BudgetStoreError as error:
        raise click.ClickException(f"budget store {shown_text(settings.url)}: {error}") from None
    report = as_json(settings, members, standings)
    if is_json:
        echo_json(report)
    else:
        echo(*as_text(report, shows_all))


async def _asked(opened: Opened, settings: Budgets) -> tuple[Sequence[Member], Sequence[Standing]]:
    store = opened.plugins.open_budgets(settings, "status")
    try:
        return await store.members(), await store.standings()
    finally:
        await store.close()


def as_json(settings: Budgets, members: Sequence[Member], standings: Sequence[Standing]) -> dict[str, Any]:
    """What the command prints with `--json`.

    :param settings: the section `budgets`.
    """
    infos = [member_info(each) for each in members]
    versions = Counter(each.get(POLICIES, "") for each in infos)
    most = next((version for version, count in versions.items() if 2 * count > len(members)), None)
    return {
        "store": shown_text(settings.url),
        "fleet": settings.name,
        "members": [
            {
                "gateway": member.gateway,
                "worker": member.worker,
                "policies": info.get(POLICIES, ""),
                "has_other_policies": info.get(POLICIES, "") != most,
                "name_is_taken": bool(info.get(NAME_IS_TAKEN)),
            }
            for member, info in zip(members, infos, strict=True)
        ],
        "tasks": [
            {"name": task, "gateway": member.gateway, "worker": member.worker}
            for member, info in zip(members, infos, strict=True)
            for task in info.get(LED, ())
        ],
        "limits": [_limit(each, members, infos) for each in standings],
    }


def _limit(
    standing: Standing, members: Sequence[Member], infos: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    name, _, dimension = standing.limit.name.rpartition("|")
    shares = [
        {
            "gateway": member.gateway,
            "worker": member.worker,
            "granted": info[LIMITS][name][_DIMENSIONS[dimension]],
        }
        for member, info in zip(members, infos, strict=True)
        if dimension in _DIMENSIONS and name in info.get(LIMITS, {})
    ]
    return {
        "name": standing.limit.name,
        "rate": standing.limit.rate,
        "burst": standing.limit.burst,
        "holders": standing.holders,
        "demand": standing.demand,
        "level": standing.level,
        "leased": standing.leased,
        "granted": sum(each["granted"] for each in shares) if shares else None,
        "shares": shares,
    }


def as_text(report: dict[str, Any], shows_all: bool) -> list[str]:
    """What the command prints for people, as lines.

    :param report: from `as_json`.
    :param shows_all: whether to show limits without a holder, too.
    """
    members = report["members"]
    lines = [f"store {report['store']}, fleet {report['fleet']}", ""]
    rows = [("gateway", "worker", "policies", "")]
    rows += [(each["gateway"], each["worker"], each["policies"] or "-", _marks(each)) for each in members]
    lines += [*(aligned(rows) if members else ["no gateway shares it now"]), ""]
    if tasks := report["tasks"]:
        led = sorted((each["name"], f"{each['gateway']} {each['worker']}") for each in tasks)
        lines += [*aligned([("task", "run by"), *led]), ""]
    limits = sorted(report["limits"], key=lambda each: (-each["demand"], each["name"]))
    used = [each for each in limits if each["holders"]]
    shown = limits if shows_all else used[:_MOST_LIMITS]
    head = ("limit", "rate", "burst", "holders", "demand", "granted", "shares")
    lines += aligned([head, *map(_row, shown)]) if shown else ["no limit is in use"]
    if not shows_all:
        left_out = {
            "in use with less demand": len(used) - len(shown),
            "not in use now": len(limits) - len(used),
        }
        lines += [f"{what}: {count} more (--all)" for what, count in left_out.items() if count]
    return lines


def _marks(member: dict[str, Any]) -> str:
    texts = {
        "has_other_policies": "other policies than most",
        "name_is_taken": "another gateway has this name, too: set `budgets.gateway`",
    }
    return "; ".join(text for mark, text in texts.items() if member[mark])


def _row(limit: dict[str, Any]) -> tuple[str, ...]:
    name, _, dimension = limit["name"].rpartition("|")
    unit = _UNITS.get(dimension)
    if unit is None:
        name, unit = limit["name"], "/s"
    by_share = sorted(limit["shares"], key=lambda each: -each["granted"])
    shares = [f"{each['gateway']} {each['worker']} {each['granted']:.0f}" for each in by_share[:_MOST_SHARES]]
    if more := by_share[_MOST_SHARES:]:
        shares.append(f"{len(more)} more {sum(each['granted'] for each in more):.0f}")
    return (
        name,
        f"{limit['rate']:.0f}{unit}",
        f"{limit['burst']:.0f}",
        str(limit["holders"]),
        f"{limit['demand']:.0f}{unit}",
        "-" if limit["granted"] is None else f"{limit['granted']:.0f}{unit}",
        ", ".join(shares) or "-",
    )
