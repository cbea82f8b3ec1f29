"""Gateways as processes that share limits through a real Redis, with clients that publish by them."""

import json
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.harness.redis import RedisServer, why_no_redis
from click.testing import CliRunner, Result
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.real.needs import need
from tests.waiting import LONG_S, until

from sluicegate.cli import main
from sluicegate.runtime.plugins import CHOICE

RATE = 50
_MORE = """\
  topics:
    - {{name: limited, max_publish_rate: {rate}}}
    - {{name: narrow, max_producers_per_topic: 1}}
budgets: {budgets}
"""


class Fleet(ExitStack):
    """Starts servers and gateways in a directory, and ends them; an upstream echoes for all.

    :param directory: an empty one.
    """

    def __init__(self, directory: Path) -> None:
        need(why_no_redis())
        super().__init__()
        self._directory = directory
        self._count = 0
        self._upstream = self.enter_context(echoing())

    def _own(self) -> Path:
        self._count += 1
        own = self._directory / str(self._count)
        own.mkdir()
        return own

    def redis(self, *options: str) -> RedisServer:
        """Start a server."""
        server = RedisServer(self._own(), options)
        self.callback(server.stop)
        return server.start()

    def gateway(
        self,
        url: str,
        *,
        workers: int = 1,
        plugin: str = "",
        environ: Mapping[str, str] | None = None,
        **budgets: str,
    ) -> Gateway:
        """Start a gateway.

        :param url: of its budget store.
        :param plugin: a module that it loads, too.
        :param budgets: further keys of the section.
        """
        gateway = Gateway(self._own(), self._upstream, closed_port())
        gateway.workers = workers
        gateway.plugins = ", ".join(filter(None, (plugin, gateway.plugins)))
        gateway.environ = dict(environ or {})
        # Patient, as no machine is too slow for these tests.
        section = {"url": url, "lease": "2s", "timeout": "500ms", "gateway": "one", **budgets}
        gateway.more = _MORE.format(rate=RATE, budgets=json.dumps(section))
        gateway.write("100")
        self.callback(gateway.stop)
        gateway.start()
        assert gateway.ready, gateway.errors.read_text()
        return gateway

    def publisher(self, gateway: Gateway) -> "Publisher":
        """Connect a client."""
        publisher = Publisher(socket.create_connection(("127.0.0.1", gateway.port), LONG_S))
        self.callback(publisher.leave)
        return publisher


class Publisher:
    """A client that publishes.

    :param connection: to the gateway.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")

    def send(self, topic: str, messages: int = 1) -> None:
        """Publish so many messages."""
        self._connection.sendall(b"publish %s 5\n" % topic.encode() * messages)

    def answers(self, count: int = 1) -> list[str]:
        """The next answers: `passed`, or what a refusal says."""
        lines = [next(self._lines).decode() for _ in range(count)]
        return ["passed" if line.startswith("publish") else line for line in lines]

    def publish(self, topic: str) -> str:
        """Publish a message: its answer."""
        self.send(topic)
        return self.answers()[0]

    def leave(self) -> None:
        """Close its connection; idempotent."""
        self._lines.close()
        self._connection.close()


def wait_for_log(gateway: Gateway, text: str) -> None:
    """Return once a gateway has logged a text."""
    until(lambda: text in gateway.errors.read_text(), text)


def command(gateway: Gateway, *words: str, option: str = "-c") -> Result:
    """Run `sluicegate` with a gateway's file, in this process.

    :param option: by which the file is named; empty for none.
    """
    named = filter(None, (option, str(gateway.path)))
    return CliRunner().invoke(main, [*words, *named], env={CHOICE: "", **gateway.environ})


def status(gateway: Gateway) -> dict[str, Any]:
    """What `sluicegate budgets status --json` prints."""
    done = command(gateway, "budgets", "status", "--json")
    assert done.exit_code == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def metric(gateway: Gateway, name: str) -> float:
    """A metric of the budget store."""
    lines = gateway.get("/metrics")[1].splitlines()
    [value] = (line.split()[-1] for line in lines if line.startswith(f"sluicegate_budget_store_{name}{{"))
    return float(value)
