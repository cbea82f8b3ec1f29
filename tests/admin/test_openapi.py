"""The description of the admin API tells every path, and the API keeps to it whatever it is asked."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.routing import Mount, Route
from tests.admin.lab import Lab, Supervised

from sluicegate.admin.openapi import PATHS, described
from sluicegate.runtime.plugins import CHOICE


def test_every_path_and_method_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka")
    lab = Lab(Supervised(tmp_path))
    _, mount = lab.app.routes  # the page is no part of the API
    assert isinstance(mount, Mount)
    served = {
        (method.lower(), route.path)
        for route in mount.app._app.routes  # type: ignore[attr-defined]
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    lab.close()
    assert served == {(each.method, each.path) for each in PATHS}


SCHEMA = schemathesis.openapi.from_dict(described())
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}
CHECKED = settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
NOT_ASKED = ("GET /api/v1/decisions/live", "POST /api/v1/drain")
"""One does not end, the other ends this process."""
TAKES_NOTHING = (
    "GET /api/v1/openapi.json",
    "GET /api/v1/policies/document",
    "GET /api/v1/policies/rollouts",
    "GET /api/v1/health",
)
"""Operations that cannot be asked wrongly."""
ASKED = [(label, GenerationMode.POSITIVE) for label in OPERATIONS if label not in NOT_ASKED] + [
    (label, GenerationMode.NEGATIVE) for label in OPERATIONS if label not in (*NOT_ASKED, *TAKES_NOTHING)
]


@pytest.mark.parametrize(("label", "mode"), ASKED, ids=[f"{label} {mode.value}" for label, mode in ASKED])
def test_the_api_keeps_to_its_description(
    label: str, mode: GenerationMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, "kafka")
    lab = Lab(Supervised(tmp_path))

    @CHECKED
    @given(OPERATIONS[label].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(
            app=lab.app,
            base_url="http://localhost",
            headers={"authorization": "Bearer token-ci"},
            excluded_checks=[positive_data_acceptance],  # the schema does not know the policies
        )

    ask()
    lab.close()
