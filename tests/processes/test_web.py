"""A broker's web site in the supervisor: what it reads, and how soon its changes take effect."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.gateway.lab import closed_port, module_path
from tests.waiting import LONG_S, until

from sluicegate.runtime.plugins import CHOICE

FILE = """\
brokers:
  - {{name: b1, system: site, bootstrap: ["127.0.0.1:{upstream}"], listen: {{port: {port}}}, web_port: {web}}}
  - {{name: b2, system: site, bootstrap: ["127.0.0.1:1"], listen: {{port: 0}}}}
plugins: [tests.gateway.web_plugin]
state_dir: {state}
admin: {{port: 0}}
"""


def command(directory: Path, port: int, web: int, upstream: int = 1) -> "subprocess.Popen[str]":
    path = directory / "gateway.yaml"
    path.write_text(FILE.format(port=port, web=web, upstream=upstream, state=directory / "state"))
    return subprocess.Popen(
        [Path(sys.executable).with_name("sluicegate"), "run", "-c", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": module_path(), CHOICE: ""},
    )


def ask(url: str, method: str = "GET") -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=LONG_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, str]]:
    """The site's URL, the broker's port, and the line that said that all is ready."""
    port = closed_port()
    with socket.create_server(("127.0.0.1", 0)) as broker:  # its backlog is all that the gateway needs of it
        process = command(tmp_path_factory.mktemp("served"), port, 0, broker.getsockname()[1])
        assert process.stdout is not None
        ready = process.stdout.readline()
        url = ready.partition("web of b1 on ")[2].strip()
        yield url, port, ready
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.kill()
        process.communicate()


def refused(port: int, topic: str, size: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=LONG_S) as client:
        client.sendall(b"publish %s %d\n" % (topic.encode(), size))
        try:
            return client.recv(200).startswith(b"refused")
        except ConnectionError:
            return False


def test_the_log_names_the_address_of_the_site(served: tuple[str, int, str]) -> None:
    url, _, ready = served
    assert url.startswith("http://127.0.0.1:")
    assert "web of b2" not in ready


def test_a_policy_set_by_the_site_reaches_the_worker(
    served: tuple[str, int, str],
) -> None:
    url, port, _ = served
    assert ask(f"{url}/t") == (200, {"size": 10 * 2**20, "said": None, "facts": {"starts": "1"}})

    assert ask(f"{url}/t?1kB", "POST")[1]["size"] == 1000
    until(lambda: refused(port, "t", 1001))

    assert ask(f"{url}/t", "DELETE")[1]["size"] == 10 * 2**20


def test_an_invalid_value_is_refused(served: tuple[str, int, str]) -> None:
    url, _, _ = served
    status, answer = ask(f"{url}/u?-5", "POST")
    assert status == 412
    assert answer["said"].startswith("max_message_size: '-5' is negative; ")
    assert answer["size"] == 10 * 2**20


def test_a_site_that_cannot_listen_ends_the_gateway(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = command(tmp_path, closed_port(), port)
        out, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, out) == (1, "")
    assert f"broker 'b1': cannot listen on 127.0.0.1:{port} (web of broker 'b1'): " in errors
