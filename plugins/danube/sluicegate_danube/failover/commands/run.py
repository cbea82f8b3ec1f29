"""`sluicegate danube failover run`."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic_ns

import click
from pydantic_core import PydanticCustomError

from sluicegate.config.units import DURATION
from sluicegate.output import echo
from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover import keys, runner
from sluicegate_danube.failover.commands.options import (
    CONTROLLER_TTL_S,
    json_option,
    new_id,
    open_store,
    show_plan,
    store_option,
    with_store,
)
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.election import Election, ForeignLoadManagerError
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.preview import Planned, of_the_dead, preview
from sluicegate_danube.failover.view import ClusterView

_MS = 1_000_000


def _duration(ctx: click.Context, param: click.Parameter, value: str) -> int:
    try:
        return int(DURATION.parse(int(value) if value.isdecimal() else value))
    except PydanticCustomError as error:
        said = error.context or {}
        problem = "; ".join(str(said[part]) for part in ("problem", "remedy") if said.get(part))
        raise click.BadParameter(problem, ctx, param) from None


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"expected HOST:PORT, got {value!r}", ctx, param)
    return host.strip("[]"), int(port)


@click.command()
@store_option
@click.option(
    "--ttl",
    type=click.IntRange(2, 3600),
    default=CONTROLLER_TTL_S,
    show_default=True,
    metavar="SECONDS",
    help="Time of this controller's own lease: how long after its death another one takes over.",
)
@click.option(
    "--grace",
    callback=_duration,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="How long a broker's registration must be gone before its topics move. A broker that registers "
    "again within it keeps them.",
)
@click.option(
    "--metrics",
    "listen",
    callback=_address,
    metavar="HOST:PORT",
    help="Serve Prometheus metrics at /metrics; port 0 takes a free one.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which clients may ask for metrics, besides localhost, the HOST of --metrics and all IP "
    "addresses; may be given several times.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Lead although another load manager does, or did within the last minute. Danube's own load managers "
    "then only follow, for as long as a controller leads.",
)
@click.option("--dry-run", is_flag=True, help="Print what would move now, and change nothing.")
@json_option
def run(
    url: str,
    ttl: int,
    grace: int,
    listen: tuple[str, int] | None,
    allowed_hosts: tuple[str, ...],
    take_over: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Watch a Danube cluster, and move topics of brokers that die, until SIGTERM or Ctrl-C.

    Several may run: they elect a leader, and the others stand by. Nothing below /topics and /namespaces ever
    changes. It does not start where another load manager is at work, and ends if one takes the lead. Its log
    goes to standard error, as JSON with --json.
    """
    if dry_run:
        show_plan(with_store(url, _plan), as_json=as_json)
        return
    from sluicegate.runtime import logs

    logs.set_up("info", "json" if as_json else "text")
    try:
        asyncio.run(_serve(url, ttl, grace * _MS, listen, allowed_hosts, take_over=take_over))
    except ForeignLoadManagerError as error:
        raise click.ClickException(f"{error}; stop it, or lead in its place with --take-over") from None
    except (StoreError, OSError) as error:
        raise click.ClickException(str(error)) from None


async def _plan(store: MetadataStore) -> list[Planned]:
    view = ClusterView.of(await store.list(keys.CLUSTER))
    return preview(view, of_the_dead(view))


async def _serve(
    url: str,
    ttl_s: int,
    grace_ns: int,
    listen: tuple[str, int] | None,
    allowed_hosts: Sequence[str],
    *,
    take_over: bool,
) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    store = open_store(url)
    try:
        about = socket.gethostname()
        election = Election(store, new_id(), ttl_s, monotonic_ns, about, take_over=take_over)
        await election.refuse_foreign()
        controller = Controller(store, election, grace_ns)
        async with _metrics(controller.figures, listen, allowed_hosts) as served:
            echo(f"sluicegate danube failover ready: controller {election.controller}{served}")
            await runner.run(controller, store, ttl_s, stopping)
    finally:
        await store.close()


@asynccontextmanager
async def _metrics(
    figures: Figures, listen: tuple[str, int] | None, allowed_hosts: Sequence[str]
) -> AsyncIterator[str]:
    """Serve metrics within the block, if anybody wants them; gives where, for the ready line."""
    if listen is None:
        yield ""
        return
    from sluicegate.net.http import HttpServer
    from sluicegate.net.http_hosts import HostCheck
    from sluicegate_danube.failover.exposition import make_app

    app = HostCheck(make_app(figures), (listen[0], *allowed_hosts), "--allowed-host")
    server = HttpServer(app, *listen, "failover metrics")
    server.start()
    host, port = server.address
    try:
        yield f", metrics at http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    finally:
        await server.stop()
