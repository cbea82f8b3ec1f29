"""The gateway's file and its process, which the doors of the gateway share."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from sluicegate_reports.model.runs import DECISIONS
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.children import Talker
from sluicegate_reports.runner.doors.base import Setting, Way

_READY_S = _END_S = 300.0
_HOST = "sluicegate_reports.runner.host"


def write_file(file: Path, entry: Mapping[str, Any], policies: str, state_dir: Path) -> None:
    """Write a configuration file with one broker.

    :param entry: the broker's entry.
    :param policies: YAML with the key `policies`.
    """
    settings = {"brokers": [dict(entry)], "state_dir": str(state_dir)}
    file.write_text(yaml.safe_dump(settings, sort_keys=False) + policies, encoding="utf-8")


@asynccontextmanager
async def hosted(
    name: str, order: Mapping[str, Any], directory: Path, notes: list[str] | None = None
) -> AsyncIterator[tuple[Talker, Mapping[str, Any]]]:
    """A gateway or a reference broker in a process of its own.

    :param name: for messages and files.
    :param order: what `host` is told.
    :param directory: for its order and what it prints.
    :param notes: takes what its decision log lost; it has one if this is given.
    :return: the process, and what it said when it was ready.
    :raises UnavailableError: if it does not get ready.
    """
    file = directory / f"{name}.json"
    file.write_text(json.dumps(order, indent=1), encoding="utf-8")
    async with Talker(name, _HOST, [str(file)], directory / f"{name}.log") as process:
        ready = await process.hear("ready", _READY_S)
        yield process, ready["ready"]
        await process.tell({"end": True})
        if notes is not None:
            notes += await _lost(process)


async def _lost(process: Talker) -> list[str]:
    try:
        log = (await process.hear("log", _END_S))["log"]
    except UnavailableError as error:
        return [f"the decision log may be incomplete: {error}"]
    if log["dropped"]:
        return [f"the decision log lost {log['dropped']} of {log['decided']} decisions"]
    return []


@asynccontextmanager
async def gated(setting: Setting, role: str, entry: Mapping[str, Any]) -> AsyncIterator[Way]:
    """An arm whose policies a gate of ours applies, in a process of its own.

    :param role: what `host` is to be.
    :param entry: the gate's entry under `brokers:`, besides what all have.
    :raises UnavailableError: if it does not get ready.
    """
    file, arm = setting.directory / "gateway.yaml", setting.arm
    common = {"name": "compare", "system": arm.client, "max_hold": setting.loaded.scenario.max_hold}
    write_file(file, {**common, **entry}, setting.loaded.policies, setting.directory / "state")
    order = {
        "role": role,
        "file": str(file),
        "run": setting.run,
        "system": arm.system,
        "door": arm.door,
        "decisions": str(setting.run_directory / DECISIONS),
        "topics": list(setting.topics.values()),
    }
    notes: list[str] = []
    async with hosted(role, order, setting.directory, notes) as (process, ready):
        yield Way((ready["address"],), process=process, notes=notes)
