"""A gateway's certificate renewed again and again while clients are connected: drops, and memory."""

import asyncio
import logging
import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import procfs
from benchmarks.harness.arms import Bench
from benchmarks.harness.kafka_bytes import API_VERSIONS_V0
from benchmarks.harness.names import ENGINE
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.scenario import Scenario
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate_kafka.demo.mock_cluster import mock_cluster

_RENEWALS, _QUICK_RENEWALS = 1_000, 50
_BROKEN_EVERY = 5
"""Each fifth pair does not fit together."""
_CLIENTS = 50
_ASKED_EVERY = 25
_FILE = """brokers:
- name: main
  system: kafka
  bootstrap: ["{node}"]
  listen: {{port: 0}}
  node_port_base: 39392
  tls: {{client: {{cert: {cert}, key: {key}}}, warn_before: []}}
state_dir: {directory}/state
decisions: {{enabled: false}}
"""


@dataclass(frozen=True, slots=True)
class _Pair:
    cert: Path
    key: Path

    @classmethod
    def issue(cls, directory: Path, name: str) -> "_Pair":
        pair = cls(directory / f"{name}.pem", directory / f"{name}.key")
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ]
        command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*command, "-keyout", pair.key, "-out", pair.cert], check=True, capture_output=True)
        return pair

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text())


class _Client:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def is_served(self) -> bool:
        self._writer.write(API_VERSIONS_V0)
        try:
            await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4)))
        except (asyncio.IncompleteReadError, OSError):
            return False
        return True

    def end(self) -> bytes:
        """Close it; returns the certificate that it was shown."""
        shown: bytes = self._writer.get_extra_info("ssl_object").getpeercert(True)
        self._writer.close()
        return shown


class _Renewals:
    """A gateway that serves from two files, which are overwritten again and again.

    :param files: those that it serves from.
    :param pairs: what is written into them in turn.
    """

    def __init__(self, gateway: EmbeddedGateway, files: _Pair, pairs: tuple[_Pair, _Pair]) -> None:
        self._gateway, self._files, self._pairs = gateway, files, pairs
        self._good = pairs[0]
        self._trusted = ssl.create_default_context()
        for pair in pairs:
            self._trusted.load_verify_locations(pair.cert)
        self.wrong = 0
        """New clients that were not shown the newest good certificate."""

    async def connect(self) -> _Client:
        return _Client(*await asyncio.open_connection(*self._gateway.address(), ssl=self._trusted))

    async def renew(self, number: int) -> None:
        """Write another pair, have it read, and look what a new client is shown."""
        pair, other = self._pairs[number % 2], self._pairs[(number + 1) % 2]
        is_broken = number % _BROKEN_EVERY == 0
        before = self._tls()["renewals"]
        shutil.copy(pair.cert, self._files.cert)
        shutil.copy(other.key if is_broken else pair.key, self._files.key)
        self._gateway.worker().renew_tls()
        while (tls := self._tls())["successful"] is is_broken or tls["renewals"] == before - is_broken:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        self._good = self._good if is_broken else pair
        self.wrong += (await self.connect()).end() != self._good.der

    def _tls(self) -> dict[str, int]:
        [tls] = self._gateway.worker().snapshot()["tls"]
        return dict(tls)


def _certificates(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    if shutil.which("openssl") is None:
        raise UnavailableError("openssl is not installed")
    directory = bench.directory / "certificates"
    directory.mkdir(exist_ok=True)
    logging.getLogger("sluicegate").setLevel(logging.CRITICAL)  # broken pairs are told, 200 times here
    try:
        return asyncio.run(_renewals(directory, _QUICK_RENEWALS if quick else _RENEWALS))
    finally:
        logging.getLogger("sluicegate").setLevel(logging.NOTSET)


async def _renewals(directory: Path, count: int) -> dict[str, float]:
    pairs = _Pair.issue(directory, "one"), _Pair.issue(directory, "two")
    files = _Pair(directory / "gate.pem", directory / "gate.key")
    shutil.copy(pairs[0].cert, files.cert)
    shutil.copy(pairs[0].key, files.key)
    path = directory / "gateway.yaml"
    async with mock_cluster() as (node,):
        path.write_text(_FILE.format(node=node, cert=files.cert, key=files.key, directory=directory))
        async with EmbeddedGateway.from_file(path) as gateway:
            renewals = _Renewals(gateway, files, pairs)
            clients = [await renewals.connect() for _ in range(_CLIENTS)]
            unserved = warm = 0
            for number in range(1, count + 1):
                await renewals.renew(number)
                if number == count // 5:
                    warm = procfs.resident_bytes(os.getpid())
                if number % _ASKED_EVERY == 0:
                    unserved += [await client.is_served() for client in clients].count(False)
            grown = procfs.resident_bytes(os.getpid()) - warm
            for client in clients:
                client.end()
    return {
        "dropped": unserved,
        "wrong_certificates": renewals.wrong,
        "grown_mib": grown / 1024**2,
    }


SCENARIOS = (
    Scenario(
        "certificate-renewals",
        "1,000 renewals of a certificate, 200 of them broken, beside 50 connected clients",
        (ENGINE,),
        _certificates,
        rounds=1,
        cold_round=False,
    ),
)
