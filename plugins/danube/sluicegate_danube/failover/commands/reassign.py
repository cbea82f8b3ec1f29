"""`sluicegate danube failover reassign`."""

from dataclasses import asdict
from time import monotonic_ns

import click

from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate_danube.failover import reassigning
from sluicegate_danube.failover.commands.options import (
    CONTROLLER_TTL_S,
    json_option,
    move_line,
    new_id,
    show,
    show_plan,
    store_option,
    with_store,
)
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.preview import Planned
from sluicegate_danube.failover.reassigning import CannotReassignError, Reassigned, Wanted

BROKER = click.IntRange(0, 2**64 - 1)


@click.command()
@store_option
@click.option("--from", "source", type=BROKER, metavar="BROKER", help="Take topics from this broker.")
@click.option("--to", "target", type=BROKER, metavar="BROKER", help="Give them to this one, if it is active.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Move this topic only; may be given again."
)
@click.option("--dry-run", is_flag=True, help="Print what would move, and change nothing.")
@json_option
def reassign(
    url: str, source: int | None, target: int | None, topics: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Move topics to other brokers now.

    Without --from and --topic it moves the topics of dead brokers, without a grace, and those that wait.
    Where a controller or another load manager leads, topics are entered as unassigned and the leader assigns
    them; where none does, this command leads for as long as it takes. Nothing below /topics and /namespaces
    changes.
    """
    wanted = Wanted(topics, source, target)

    async def plan(store: MetadataStore) -> list[Planned]:
        return await reassigning.dry_run(store, wanted)

    async def move(store: MetadataStore) -> Reassigned:
        election = Election(store, new_id(), CONTROLLER_TTL_S, monotonic_ns, "reassign")
        return await reassigning.reassign(store, wanted, election)

    try:
        if dry_run:
            show_plan(with_store(url, plan), as_json=as_json)
            return
        done = with_store(url, move)
    except CannotReassignError as error:
        raise click.ClickException(str(error)) from None
    lines = [move_line(each) for each in done.moved]
    lines += [f"{topic}: unassigned, for the leader to assign" for topic in done.entered]
    lines += [f"{topic}: left alone, it has no durable entry" for topic in done.left]
    show(asdict(done), lines or ["nothing to move"], as_json=as_json)
