"""What happens now, over the admin API; real workers give the same snapshots in tests/gateway."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.admin.lab import Lab, Supervised

from sluicegate.model import version_text
from sluicegate.runtime.plugins import CHOICE


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv(CHOICE, "kafka")
    made = Lab(Supervised(tmp_path))
    yield made
    made.close()


async def test_topics_have_totals_counts_and_the_use_of_their_limits(lab: Lab) -> None:
    answer = await lab.ask("GET", "/topics", None)
    first, second = answer.json()["topics"]
    assert {key: first[key] for key in ("broker", "topic", "published_messages", "delayed", "held")} == {
        "broker": "main",
        "topic": "orders.eu",
        "published_messages": 500,
        "delayed": 4,
        "held": 1,
    }
    assert (first["producers"], first["consumers"], first["by_policy"]) == (2, 4, {"max_publish_rate": 4})
    assert first["use"]["max_publish_rate"]["used_1s"] == 80.4
    assert second["topic"] == "\x1b[31m<script>"
    assert "\x1b" not in answer.text


@pytest.mark.parametrize(
    ("path", "key", "name"),
    [
        ("/brokers", "brokers", "broker"),
        ("/principals", "principals", "principal"),
        ("/clients", "clients", "client"),
        ("/held", "held", "client"),
        ("/plugins", "plugins", "plugin"),
        ("/factors", "brokers", "broker"),
    ],
)
async def test_each_list_names_its_broker_and_has_pages(lab: Lab, path: str, key: str, name: str) -> None:
    found = (await lab.ask("GET", path, None)).json()
    assert found["total"] == len(found[key]) == 1
    [row] = found[key]
    assert row["broker"] == "main"
    assert row[name]
    assert (await lab.ask("GET", f"{path}?broker=other", None)).json() == {key: [], "total": 0}
    assert (await lab.ask("GET", f"{path}?offset=1", None)).json() == {key: [], "total": 1}
    assert (await lab.ask("GET", f"{path}?limit=0", None)).status_code == 400


async def test_health_and_factors(lab: Lab) -> None:
    health = (await lab.ask("GET", "/health", None)).json()
    assert (health["ready"], health["policies"]) == (True, version_text(lab.supervised.watch.version))
    [row] = (await lab.ask("GET", "/factors", None)).json()["brokers"]
    assert row["factors"] == {"load": {"value": 0.5, "why": "cpu"}}


async def test_plugins_have_their_faults_and_the_times_of_their_calls(lab: Lab) -> None:
    [row] = (await lab.ask("GET", "/plugins", None)).json()["plugins"]
    times = {"call": "max_batch", "sampled": 4, "mean_us": 1.5, "longest_us": 9.3}
    assert row == {"broker": "main", "plugin": "mine", "faults": 3, "calls": [times]}


async def test_pressures_are_factors_and_the_sources_of_controllers(lab: Lab) -> None:
    facts = {
        "factor.disk": '{"value": 0.3, "why": "95 % full", "known": true, "at_ms": 7, "text": "x"}',
        "adaptive.status": '{"memory_pressure": 0.4, "at_ms": 8, "sources": {"heap": "known", "rss": "no"}}',
        "adaptive.broken": "{",
    }
    lab.supervised.facts = lambda broker: facts  # type: ignore[method-assign]
    [row] = (await lab.ask("GET", "/pressures", None)).json()["brokers"]
    told = {"controller": "status", "memory_pressure": 0.4, "at_ms": 8}
    assert row == {
        "broker": "main",
        "factors": [{"factor": "disk", "value": 0.3, "why": "95 % full", "known": True, "at_ms": 7}],
        "sources": [
            {"source": "heap", "known": True, "problem": "", **told},
            {"source": "rss", "known": False, "problem": "no", **told},
        ],
    }
    assert (await lab.ask("GET", "/pressures?broker=other", None)).json()["total"] == 0


async def test_explaining_tells_the_use(lab: Lab) -> None:
    found = (await lab.ask("GET", "/policies/effective?topic=orders.eu", None)).json()
    assert found["use"] == {"max_publish_rate": "80/s"}


async def test_who_may_write_can_drain_the_gateway(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr("os.kill", lambda process, number: sent.append(number))
    assert (await lab.ask("POST", "/drain", "token-viewer", json={})).status_code == 403
    assert (await lab.ask("POST", "/drain?dry_run=true", None, json={})).status_code == 403
    assert sent == []
    assert (await lab.ask("POST", "/drain", json={})).status_code == 202
    assert sent == [signal.SIGTERM]
