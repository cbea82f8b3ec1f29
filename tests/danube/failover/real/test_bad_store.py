"""The commands on an etcd that is down or refuses the login: a clear error, and nothing is changed."""

import asyncio
from pathlib import Path

from benchmarks.harness.etcd import Etcd, why_no_etcd
from click.testing import CliRunner
from tests.danube.failover.world import World
from tests.real.needs import need
from tests.waiting import LONG_S

from sluicegate.cli import main
from sluicegate.store.metadata import Listing, open_metadata

COMMANDS = [("status",), ("run", "--dry-run"), ("run",), ("reassign",), ("reassign", "--from", "1")]


async def provided(url: str) -> None:
    """A broker that is alive, and a topic of one that is dead."""
    opened = open_metadata(url)
    assert opened is not None
    world = World(opened[0])
    await world.start(1, ttl_s=3_600)
    await world.provide("/default/a", 2)
    await opened[0].close()


async def listed(url: str) -> Listing:
    opened = open_metadata(url)
    assert opened is not None
    found = await opened[0].list("/")
    await opened[0].close()
    return found


def check_refused(url: str, text: str) -> None:
    for command in COMMANDS:
        done = CliRunner().invoke(main, ["danube", "failover", *command, "--store", url])
        assert done.exit_code != 0, command
        assert text in done.output, command


def test_etcd_refuses_the_login_or_is_down(tmp_path: Path) -> None:
    need(why_no_etcd())
    with Etcd(tmp_path / "etcd") as etcd:
        place = f"127.0.0.1:{etcd.port}?timeout={LONG_S}s"
        asyncio.run(provided(f"etcd://{place}"))
        etcd.ask("auth/user/add", name="root", password="secret")
        etcd.ask("auth/user/grant", user="root", role="root")
        etcd.ask("auth/enable")
        before = asyncio.run(listed(f"etcd://root:secret@{place}"))
        check_refused(f"etcd://root:wrong@{place}", "rejects user or password")
        assert asyncio.run(listed(f"etcd://root:secret@{place}")) == before
        etcd.kill()
        check_refused(f"etcd://root:secret@{place}", "cannot be reached")
