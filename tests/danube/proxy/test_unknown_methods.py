"""Methods that the gateway does not know, for which no policy can hold."""

from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests.danube.support.gates import Gate, channel, gate
from tests.waiting import LONG_S

from sluicegate_danube.reference import ReferenceBroker

METHOD = "/danube.Tomorrow/Publish"


async def call(through: Gate, path: str, times: int = 1) -> tuple[grpc.StatusCode, str]:
    async with channel(through) as to_gate:
        method: Any = to_gate.unary_unary(path)
        for _ in range(times):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(b"anything", timeout=LONG_S)
    return refused.value.code(), str(refused.value.details())


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "sluicegate.danube"]


async def test_unknown_methods_are_refused_counted_and_logged_once(
    reference: ReferenceBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with gate(tmp_path, reference.addresses) as through:
        code, text = await call(through, METHOD, 3)
        assert code is grpc.StatusCode.UNIMPLEMENTED
        assert "unknown_methods: {danube.Tomorrow: pass}" in text
        assert through.counters()["unknown_method_refused"] == 3
        assert "unknown_method" not in through.counters()
    lines = told(caplog)
    assert len(lines) == 1
    assert METHOD in lines[0]


@pytest.mark.parametrize("rule", ["pass", {"danube.Tomorrow": "pass"}])
async def test_unknown_methods_pass_by_configuration_and_are_counted_and_logged(
    reference: ReferenceBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: object
) -> None:
    async with gate(tmp_path, reference.addresses, unknown_methods=rule) as through:
        code, text = await call(through, METHOD, 2)
        assert (code, text) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")  # the broker's own words
        assert through.counters()["unknown_method"] == 2
        lines = told(caplog)
        assert len(lines) == 1
        assert "no policy holds" in lines[0]
        if isinstance(rule, dict):
            _, text = await call(through, "/danube.ProducerService/SendSecretly")
            assert "unknown_methods" in text


@pytest.mark.parametrize(
    "path", ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]
)
async def test_health_checks_and_reflection_pass_and_are_known(
    reference: ReferenceBroker, tmp_path: Path, path: str
) -> None:
    async with gate(tmp_path, reference.addresses) as through:
        assert await call(through, path) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        assert not {"unknown_method", "unknown_method_refused"} & set(through.counters())
