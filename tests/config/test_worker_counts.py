"""How many workers an entry may ask for."""

import os
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from sluicegate.config.models import BrokerConfig
from sluicegate.config.tree import parse
from sluicegate.config.worker_counts import worker_findings


class Entry(BrokerConfig):
    system: Literal["any"]


def entry(workers: Any) -> Entry:
    return Entry.model_validate({"name": "a", "system": "any", "bootstrap": ["b:1"], "workers": workers})


def test_auto_is_one_for_each_core() -> None:
    assert entry("auto").workers == min(64, len(os.sched_getaffinity(0)))
    assert entry(64).workers == 64


@pytest.mark.parametrize("workers", [0, -1, 65, True, 1.5, "many", None])
def test_other_numbers_are_refused(workers: Any) -> None:
    with pytest.raises(ValidationError, match="expected 1 to 64 processes, or auto for one for each core"):
        entry(workers)


@pytest.mark.parametrize(("cores", "said"), [(1, "1 core"), (2, "2 cores"), (3, "")])
def test_more_workers_than_cores_is_a_warning_at_its_line(cores: int, said: str) -> None:
    root = parse("brokers:\n  - name: a\n    workers: 3\n", "f", [])
    findings = list(worker_findings(root, [(0, entry(3))], cores))
    assert len(findings) == (1 if said else 0)
    for finding in findings:
        assert (finding.line, finding.severity) == (3, "warning")
        assert finding.message == f"broker 'a' has 3 workers, and the gateway has {said}"
        assert finding.remedy == "write 'workers: auto' for one worker for each core"
