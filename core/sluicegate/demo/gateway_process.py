"""The gateway of the demo: a `sluicegate run` process, started as a user would."""

import asyncio
import os
import signal
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Self

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from sluicegate.demo.policy_file import PolicyFile
from sluicegate.host.children import python_command

_READY = "sluicegate ready:"
_START_S = 120.0
_STOP_S = 60.0
_LOOK_S = 0.2
_ANSWER_S = 30.0
_LAST_LINES = 5


class GatewayError(Exception):
    """The gateway did not start, or does not respond; the message has its last output."""


def metric(admin: str, name: str, topic: str = "") -> float | None:
    """Read a metric of a gateway; blocks.

    :param admin: URL of its administrative endpoint.
    :param name: the sample's full name.
    :param topic: the topic's label, for metrics by topic.
    :return: None if the metric does not exist.
    """
    values = {
        sample.labels.get("topic", ""): sample.value for sample in _samples(admin) if sample.name == name
    }
    return values.get(topic, values.get(""))


def _samples(admin: str) -> list[Sample]:
    """All metrics of a gateway; blocks."""
    with urllib.request.urlopen(f"{admin}/metrics", timeout=_ANSWER_S) as page:  # noqa: S310 - the demo's own
        families = text_string_to_metric_families(page.read().decode())
    return [sample for family in families for sample in family.samples]


class Gateway:
    """One `sluicegate run`, as an asynchronous context manager.

    :param file: its policy file.
    :param admin_port: free port for its administrative endpoint.
    :param log: file for its output.
    """

    def __init__(self, file: PolicyFile, admin_port: int, log: Path) -> None:
        self.file = file
        self.admin = f"http://127.0.0.1:{admin_port}"
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def command(self) -> list[str]:
        """The command line, with this interpreter."""
        return python_command("sluicegate", "run", "-c", str(self.file.path))

    async def __aenter__(self) -> Self:
        """Start it, and wait until it reports that it is ready.

        :raises GatewayError: if it ends, or is not ready within two minutes.
        """
        # Overrides for an operator's real configuration must not affect the demo.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICEGATE__")}
        with self._log.open("wb") as printed:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(_START_S):
                while _READY not in self._printed():
                    if self._process.returncode is not None:
                        raise GatewayError(f"the gateway ended; its last output: {self._last_output()}")
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            await self._stop()
            raise GatewayError(f"gateway not ready after {_START_S:.0f} s: {self._last_output()}") from None
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it with SIGTERM."""
        await self._stop()

    async def settled(self) -> None:
        """Wait until all decisions so far are in the decision log.

        :raises GatewayError: if it does not respond.
        """
        before = -1.0
        while True:
            decided, waiting = await asyncio.to_thread(self._decided)
            if waiting == 0 and decided == before:
                return
            before = decided
            # Workers report once a second: two equal reports mean that nothing was under way between them.
            await asyncio.sleep(1.2)

    def _decided(self) -> tuple[float, float]:
        values: dict[str, float] = {}
        try:
            samples = _samples(self.admin)
        except (urllib.error.URLError, OSError) as error:
            raise GatewayError(f"the gateway does not respond ({error}): {self._last_output()}") from None
        for sample in samples:
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
        decided, emitted, dropped = (
            values[f"sluicegate_decision_log_{name}_total"] for name in ("decided", "emitted", "dropped")
        )
        return decided, decided - emitted - dropped

    async def _stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except (TimeoutError, asyncio.CancelledError):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def _printed(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _last_output(self) -> str:
        return " | ".join(self._printed().strip().splitlines()[-_LAST_LINES:]) or "(none)"
