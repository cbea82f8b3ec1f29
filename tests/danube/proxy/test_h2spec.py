"""h2spec, the conformance tests of HTTP/2: the gateway shows nothing that its upstream alone does not show.

Upstreams are no more perfect than others, so each is tested alone and through the gateway. They are no
Danube: grpc-go, and Node's nghttp2, which takes the RFC more seriously.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.harness.grpc_clients import start_upstream
from benchmarks.harness.processes import Child, free_port
from tests.danube.support.gates import gate
from tests.danube.support.programs import built, installed, run
from tests.waiting import LONG_S

HELD, PASSING = "/danube.HealthCheck/HealthCheck", "/danube.SchemaRegistry/ListVersions"
"""Of the one the gate reads the message before the headers go on; the other goes on as it came."""
SECTIONS = (
    *("generic", "hpack", "http2/3", "http2/4", "http2/5.1", "http2/5.3", "http2/5.4", "http2/5.5"),
    *("http2/6.1", "http2/6.2", "http2/6.3", "http2/6.4", "http2/6.5", "http2/6.7", "http2/6.8", "http2/6.9"),
    *("http2/6.10", "http2/7", "http2/8.1", "http2/8.2"),
)
CASES = 146
NOT_HERE = {
    # They set a table of 128 and of 4,096 bytes, whatever was announced. The gateway announces 0, and
    # anything above that is an error: so says RFC 7541 section 6.3, and so does the case hpack/6.3/1.
    "generic/5/14",
    "generic/5/15",
    # It opens one stream more than may be open, but upstreams that answer at once end some meanwhile.
    # tests/grpc/proxy/splice/test_streams.py shows the same with bytes.
    "http2/5.1.2/1",
}
WAITING_S, PATIENT_S = 1, 10
SERVER = Path(__file__).parent.parent / "support" / "http2_server.js"


async def failing(directory: Path, port: int, path: str, *cases: str, wait_s: int) -> set[str]:
    """The cases that a server fails: `section/number`.

    :param directory: for reports.
    :param wait_s: how long an answer may take.
    """
    reports = [directory / f"{port}-{wait_s}-{case.replace('/', '-')}.xml" for case in cases]
    options = ("-S", "-p", str(port), "-P", path, "-o", str(wait_s))
    program = built("h2spec")
    tests = zip(cases, reports, strict=True)
    await asyncio.gather(*(run(program, case, *options, "-j", report) for case, report in tests))
    found = [each for report in reports for each in read(report)]
    assert len(found) == (CASES if cases == SECTIONS else len(cases))
    return {case for case, passed in found if not passed}


def read(report: Path) -> Iterator[tuple[str, bool]]:
    """The cases of one report, and whether they passed or do not apply."""
    # No parser of XML reads it: what servers say stands there unchanged, whatever its bytes.
    for suite in report.read_bytes().split(b'<testsuite name="')[1:]:
        name, *cases = suite.split(b"<testcase ")
        section = name.partition(b'package="')[2].partition(b'"')[0].decode()
        for number, case in enumerate(cases, 1):
            yield f"{section}/{number}", b"<failure" not in case and b"<error" not in case


def start(stack: ExitStack, directory: Path, upstream: str) -> int:
    """Start an upstream; returns its port."""
    port = free_port()
    if upstream == "grpc-go":
        built("peer")
        start_upstream(stack, directory, port)
        return port
    command: list[str | Path] = [installed("node", "nodejs"), SERVER, str(port)]
    stack.enter_context(Child("node", command, directory / "node.log")).wait_for_port(port, LONG_S)
    return port


@pytest.mark.parametrize(("upstream", "path"), [("grpc-go", HELD), ("node", HELD), ("node", PASSING)])
async def test_the_gateway_passes_what_its_upstream_passes(upstream: str, path: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        port = start(stack, tmp_path, upstream)
        async with gate(tmp_path, [f"127.0.0.1:{port}"], unknown_methods="pass") as through:
            own = int(through.address.rpartition(":")[2])
            alone, gated = await asyncio.gather(
                failing(tmp_path, port, path, *SECTIONS, wait_s=WAITING_S),
                failing(tmp_path, own, path, *SECTIONS, wait_s=WAITING_S),
            )
            more = sorted(gated - alone - NOT_HERE)  # or this machine was busy
            assert await failing(tmp_path, own, path, *more, wait_s=PATIENT_S) == set()
