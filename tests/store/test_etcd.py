"""The metadata store in a real etcd: restarts, compaction, logins, TLS, members that are away."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
from benchmarks.harness.etcd import Etcd, Tls, why_no_etcd
from tests.gateway.certificates import Authority
from tests.real.needs import need
from tests.waiting import LONG_S, until_answered

from sluicegate.store import StoreError
from sluicegate.store.metadata import (
    CompactedError,
    Listing,
    MetadataStore,
    Put,
    Unchanged,
    follow,
    open_metadata,
)


@pytest.fixture(autouse=True)
def installed(patient: None) -> None:
    need(why_no_etcd())


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[MetadataStore]:
    found = open_metadata(url)
    assert found is not None
    try:
        yield found[0]
    finally:
        await found[0].close()


async def error_of(url: str) -> StoreError:
    async with opened(url) as store:
        with pytest.raises(StoreError) as refused:
            await store.get("/a")
    return refused.value


async def until_served(store: MetadataStore) -> None:
    """Return once etcd answers again."""
    await until_answered(lambda: store.get("/"), lambda error: isinstance(error, StoreError))


async def test_a_watch_goes_on_behind_its_revision_after_a_crash(own_etcd: Etcd) -> None:
    async with opened(own_etcd.url) as watching, opened(own_etcd.url) as changing:
        start = await changing.put("/a", b"0")
        async with aclosing(watching.watch("/", start)) as watch:
            await changing.put("/a", b"1")
            assert [event.revision for event in await anext(watch)] == [start + 1]
            await changing.put("/a", b"2")
            own_etcd.kill()
            own_etcd.start()
            await until_served(changing)
            await changing.put("/a", b"3")
            async with asyncio.timeout(LONG_S):
                found = [await anext(watch), await anext(watch)]
            assert [(e.revision, e.entry and e.entry.value) for [e] in found] == [
                (start + 2, b"2"),
                (start + 3, b"3"),
            ]


def compact(etcd: Etcd, revision: int) -> None:
    etcd.ask("kv/compaction", revision=revision, physical=True)


async def test_what_was_compacted_is_told_and_followed_by_a_listing(own_etcd: Etcd) -> None:
    async with opened(own_etcd.url) as store:
        start = await store.put("/a", b"0")
        async with aclosing(store.watch("/", start)) as watch:
            await store.put("/a", b"1")
            await store.delete("/a")
            last = await store.put("/b", b"2")
            compact(own_etcd, last - 1)
            with pytest.raises(
                CompactedError, match=r"compacted the changes.*list again and watch from there"
            ):
                await anext(watch)
        told: list[StoreError] = []
        async with aclosing(store.watch("/", last - 1)) as watch:
            assert [event.revision for event in await anext(watch)] == [last]
        async with aclosing(store.watch("/", last - 2)) as watch:
            with pytest.raises(CompactedError):  # the delete is the very revision that was compacted
                await anext(watch)
        async with aclosing(follow(store, "/", told.append)) as found:
            first = await anext(found)
            assert isinstance(first, Listing)
            assert [entry.key for entry in first.entries] == ["/b"]


async def test_an_etcd_that_is_down(own_etcd: Etcd) -> None:
    own_etcd.stop()
    error = await error_of(own_etcd.url)
    assert f"etcd at 127.0.0.1:{own_etcd.port} cannot be reached" in str(error)
    assert error.remedy.startswith("start it")


async def test_an_etcd_that_is_silent(own_etcd: Etcd) -> None:
    async with opened(f"{own_etcd.url}/x?timeout=1s") as store:
        await until_served(store)
        own_etcd.pause()
        try:
            with pytest.raises(StoreError, match=r"did not respond within 1 s: check its load"):
                await store.get("/a")
            with pytest.raises(
                StoreError, match=r"did not respond within 1 s; the change may have taken effect"
            ):
                await store.put("/a", b"2")
        finally:
            own_etcd.resume()
        await until_served(store)


class EtcdCluster:
    """Several members.

    :param directory: for their data and logs.
    """

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.members = [Etcd(directory, name=f"n{index}") for index in range(count)]
        for member in self.members:
            member.cluster = self.members

    @property
    def url(self) -> str:
        """What `store:` says for it, without a prefix."""
        return "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def __enter__(self) -> Self:
        for member in self.members:
            member.launch()
        for member in self.members:
            member.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path) as started:
        yield started


async def test_a_cluster_serves_without_one_member_and_says_when_it_has_no_quorum(
    cluster: EtcdCluster,
) -> None:
    one, two, _ = cluster.members
    async with opened(f"{cluster.url}/x?timeout=30s") as store:
        start = await store.put("/a", b"0")
        async with aclosing(store.watch("/", start)) as watch:
            coming = asyncio.ensure_future(anext(watch))
            one.kill()
            await until_served(store)
            await store.transact([Unchanged("/a", start)], [Put("/a", b"1")])
            assert [event.revision for event in await coming] == [start + 1]

            coming = asyncio.ensure_future(anext(watch))
            two.kill()
            with pytest.raises(StoreError, match=r"has no quorum|is slow or has no quorum|majority"):
                await error_without_quorum(store)
            two.start()
            await until_served(store)
            await store.put("/a", b"2")
            async with asyncio.timeout(LONG_S):
                [event] = await coming
            assert event.entry is not None
            assert event.entry.value == b"2"


async def error_without_quorum(store: MetadataStore) -> None:
    """Raise once the member that is left has noticed that it is alone."""
    async with asyncio.timeout(LONG_S):
        while True:
            await store.get("/a")


def enable_logins(etcd: Etcd) -> None:
    """`root` may do anything, `ops` all below `/mine/`."""
    for name, password in (("root", "r"), ("ops", "s3cret:@/")):
        etcd.ask("auth/role/add", name=name)
        etcd.ask("auth/user/add", name=name, password=password)
        etcd.ask("auth/user/grant", user=name, role=name)
    key, end = b64encode(b"/mine/").decode(), b64encode(b"/mine0").decode()
    etcd.ask("auth/role/grant", name="ops", perm={"permType": "READWRITE", "key": key, "range_end": end})
    etcd.ask("auth/enable")


async def test_logins(own_etcd: Etcd, tmp_path: Path) -> None:
    enable_logins(own_etcd)
    place = f"127.0.0.1:{own_etcd.port}/mine"
    assert "requires a login" in str(await error_of(f"etcd://{place}"))
    wrong = await error_of(f"etcd://ops:hunter2@{place}")
    assert "rejects user or password" in str(wrong)
    assert "hunter2" not in str(wrong)
    async with opened(f"etcd://ops:s3cret%3A%40%2F@{place}") as store:
        start = await store.put("/mine/a", b"1")
        with pytest.raises(StoreError, match="denies the user these keys") as refused:
            await store.get("/other")
        assert "grant it read and write for the prefix" in refused.value.remedy
        async with aclosing(store.watch("/other", start)) as denied:
            with pytest.raises(StoreError, match="permission denied"):
                await anext(denied)
        async with aclosing(store.watch("/mine/", start)) as watch:
            own_etcd.kill()
            own_etcd.start()  # which forgets tokens
            await until_mine(store)
            await store.put("/mine/a", b"2")
            async with asyncio.timeout(LONG_S):
                assert [event.revision for event in await anext(watch)] == [start + 1]
    (tmp_path / "password").write_text("s3cret:@/\n")
    async with opened(f"etcd://ops@{place}?password_file={tmp_path}/password") as store:
        assert await store.get("/mine/a")


async def until_mine(store: MetadataStore) -> None:
    """Return once etcd answers again; it is not to refuse the login meanwhile."""
    await until_answered(lambda: store.get("/mine/a"), lambda error: "cannot be reached" in str(error))


async def test_a_login_that_etcd_does_not_ask_for(own_etcd: Etcd) -> None:
    async with opened(f"etcd://ops:secret@127.0.0.1:{own_etcd.port}") as store:
        assert await store.get("/a") is None
        enable_logins(own_etcd)
        with pytest.raises(StoreError, match="rejects user or password"):
            await store.get("/mine/a")


async def test_tls(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs", "another")
    tls = Tls(*ours.issue("etcd", "127.0.0.1"), client_ca=str(tmp_path / "ours/ca.pem"))
    cert, key = ours.issue("gate", "gate")
    with Etcd(tmp_path / "etcd", tls=tls) as member:
        url = f"{member.url}/x"
        async with opened(f"{url}?ca={ours.ca}&cert={cert}&key={key}") as store:
            revision = await store.put("/a", b"1")
            async with aclosing(store.watch("/", revision - 1)) as watch:
                assert [event.revision for event in await anext(watch)] == [revision]
        wrong = await error_of(f"{url}?ca={theirs.ca}&cert={cert}&key={key}")
        assert "is not trusted" in str(wrong)
        assert "ca=FILE" in wrong.remedy
        assert "cert" in (await error_of(f"{url}?ca={ours.ca}")).remedy
        plain = await error_of(f"etcd://127.0.0.1:{member.port}")
        assert "etcds://" in plain.remedy
        gone = await error_of(f"{url}?ca={tmp_path}/nothing.pem")
        assert "nothing.pem' of the etcd URL cannot be read (No such file or directory)" in str(gone)


async def test_tls_to_a_port_without(own_etcd: Etcd) -> None:
    error = await error_of(f"etcds://127.0.0.1:{own_etcd.port}")
    assert "etcd://" in error.remedy


async def test_keys_of_others_that_are_no_utf8(own_etcd: Etcd) -> None:
    own_etcd.ask("kv/put", key=b64encode(b"/k\xff").decode(), value=b64encode(b"\xfe").decode())
    async with opened(own_etcd.url) as store:
        [entry] = (await store.list("/k")).entries
        assert entry.value == b"\xfe"
        assert await store.get(entry.key) == entry
        assert await store.delete(entry.key)
