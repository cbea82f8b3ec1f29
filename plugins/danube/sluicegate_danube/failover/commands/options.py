"""What the commands of failover share: their options, the store, and how moves are printed."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from sluicegate.output import echo, echo_json
from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate.store.metadata.opening import open_metadata
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover.preview import Planned

T = TypeVar("T")
CONTROLLER_TTL_S = 5
_KINDS = "etcd://[USER:PASSWORD@]HOST:PORT, etcds:// for TLS, or sqlite:///PATH"
_IDS = 2**63
"""Lowest controller id: brokers count from 1, so the two never meet. Ids are random above it."""

store_option = click.option(
    "--store",
    "url",
    metavar="URL",
    required=True,
    envvar="SLUICEGATE_DANUBE_STORE",
    show_envvar=True,
    help=f"The cluster's metadata store: {_KINDS}.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def open_store(url: str) -> MetadataStore:
    """The store that a URL names.

    :raises click.ClickException: if it names none that Danube's keys can be in.
    """
    try:
        opened = open_metadata(url)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    if opened is None:
        raise click.BadParameter(f"expected {_KINDS}", param_hint="--store")
    store, prefix = opened
    if prefix:
        raise click.BadParameter(f"Danube's keys begin with no prefix, got {prefix}", param_hint="--store")
    return store


def with_store(url: str, use: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Use a store for one command.

    :raises click.ClickException: if the store cannot be used.
    """

    async def used() -> T:
        store = open_store(url)
        try:
            return await use(store)
        except StoreError as error:
            raise click.ClickException(str(error)) from None
        finally:
            await store.close()

    return asyncio.run(used())


def new_id() -> int:
    """An id for a controller, as brokers have them: random, and above those that people give to brokers."""
    return _IDS + secrets.randbelow(_IDS)


def show(said: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result."""
    if as_json:
        echo_json(said)
    else:
        echo(*lines)


def show_plan(planned: Iterable[Planned], *, as_json: bool) -> None:
    """Print moves that are not made."""
    moves = list(planned)
    said = {"dry_run": True, "moves": [asdict(move) for move in moves]}
    lines = [move_line(move) for move in moves] or ["nothing would move"]
    show(said, lines, as_json=as_json)


def move_line(move: Planned) -> str:
    """One move for people."""
    source = f"broker {move.source}" if move.source is not None else "unassigned"
    target = f"broker {move.target}" if move.target is not None else "unassigned, as no broker is active"
    return f"{move.topic}: {source} -> {target}"
