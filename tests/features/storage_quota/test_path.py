"""Usage of real file systems of this machine."""

import os
import threading
from pathlib import Path

import pytest
from tests.features.storage_quota.lab import WALL_MS, Context
from tests.real.volumes import MIB

from sluicegate.config.storage import StorageConfig
from sluicegate.features.storage_quota.quota import StorageQuota, StorageReadError
from sluicegate.features.storage_quota.sources import reader
from sluicegate.features.storage_quota.sources.path import PathSource, volume_of
from sluicegate.features.storage_quota.volumes import State


def source(*paths: object, **more: object) -> PathSource:
    config = StorageConfig.model_validate({"source": "path", "paths": [str(path) for path in paths], **more})
    return PathSource(config, lambda: WALL_MS)


async def test_paths_are_volumes_of_one_node(tmp_path: Path) -> None:
    found = await source(tmp_path, "/", broker_id="7").read()
    [usage] = found.values()
    assert (list(found), usage.at_ms, usage.limits) == (["7"], WALL_MS, usage.limits)
    assert [volume.name for volume in usage.volumes] == [str(tmp_path), "/"]
    told = os.statvfs(tmp_path)
    assert usage.volumes[0].capacity == told.f_blocks * told.f_frsize
    assert usage.volumes[0].is_credible
    # Others write to this file system too.
    assert usage.volumes[0].free == pytest.approx(told.f_bavail * told.f_frsize, abs=256 * MIB)


@pytest.mark.seed("S4-021")
async def test_free_is_what_can_still_be_written(small_volume: Path) -> None:
    before = volume_of(str(small_volume))
    assert before.capacity == 4 * MIB
    (small_volume / "log").write_bytes(bytes(MIB))
    assert volume_of(str(small_volume)).free == before.free - MIB


async def test_a_path_that_is_not_there_fails_the_whole_reading(tmp_path: Path) -> None:
    with pytest.raises(StorageReadError, match=r"absent: No such file or directory"):
        await source(tmp_path, tmp_path / "absent").read()
    with pytest.raises(ValueError, match="null"):
        await source("\0").read()


async def test_a_file_system_that_hangs_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer, real, asked = threading.Event(), os.statvfs, []

    def hang(path: str) -> os.statvfs_result:
        asked.append(path)
        answer.wait(20)
        return real(path)

    monkeypatch.setattr(os, "statvfs", hang)
    context = Context(
        {"source": "path", "paths": [str(tmp_path)], "interval": 100}, storage_hard_min_free_bytes=1
    )
    read = reader(context.config.storage, context.wall_ms)
    assert read is not None
    quota = StorageQuota(context.as_context, read)
    try:
        await quota.run()
        assert quota.verdict.why.endswith("(no answer within 1 s)")
        await quota.run()
        assert f"a file system does not respond: one of {tmp_path}" in quota.verdict.why
        assert (quota.verdict.state, asked) == (State.PAUSE, [str(tmp_path)])
    finally:
        answer.set()
    while quota.verdict.state is State.PAUSE:
        await quota.run()
    assert len(asked) == 2


@pytest.mark.seed("S4-010", "S4-012", "S4-022")
async def test_a_file_system_that_fills_throttles_then_pauses_then_recovers(small_volume: Path) -> None:
    context = Context(
        {"source": "path", "paths": [str(small_volume)]},
        storage_soft_min_free_ratio=0.75,
        storage_hard_min_free_bytes=MIB,
    )
    read = reader(context.config.storage, context.wall_ms)
    assert read is not None
    quota = StorageQuota(context.as_context, read)
    seen = []
    for used in (0, MIB, 2 * MIB, 5 * MIB // 2, 3 * MIB, 2 * MIB, 0):
        (small_volume / "log").write_bytes(bytes(used))
        await quota.run()
        seen.append((quota.verdict.state.name, round(quota.factor.value, 2)))
    assert seen == [
        ("OPEN", 1.0),
        ("OPEN", 1.0),
        ("THROTTLE", 0.5),
        ("THROTTLE", 0.25),
        ("PAUSE", 0.0),
        ("THROTTLE", 0.5),
        ("OPEN", 1.0),
    ]
