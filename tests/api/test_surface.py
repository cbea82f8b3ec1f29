"""The public interface is what docs/api-surface.txt records."""

import importlib
import importlib.util
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sluicegate import api

ROOT = Path(__file__).resolve().parents[2]
RENEW = (
    "the public interface is not what docs/api-surface.txt records: see docs/api.md for what a change needs, "
    "then run `python docs/generate_api_surface.py`"
)


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("surface", ROOT / "docs" / "generate_api_surface.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["surface"] = module  # data classes look themselves up there
    spec.loader.exec_module(module)
    return module


def test_the_interface_is_the_recorded_one() -> None:
    surface = generator()
    recorded = surface.RECORD.read_text()
    changes = unified_diff(recorded.splitlines(), surface.render().splitlines(), lineterm="", n=0)
    assert list(changes) == [], RENEW


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(api, name) is not None


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match=r"module 'sluicegate.api' has no attribute 'Nothing'"):
        getattr(api, "Nothing")  # noqa: B009 - mypy would find the name missing
    assert set(api.__all__) >= api.PROVISIONAL


def test_a_plugin_that_imports_the_interface_brings_no_gateway_and_no_arrow() -> None:
    program = (
        "import sys, sluicegate.api\n"
        "print({'pyarrow', 'grpc', 'sluicegate.processes', 'sluicegate.embedded'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The generator over a package of its own."""
    (tmp_path / "sluicegate_sample.py").write_text(
        "from dataclasses import dataclass\n"
        "class _Base:\n    def shared(self, a: int = 1) -> str: ...\n"
        "@dataclass\nclass Point(_Base):\n    y: int\n    x: int = Field(gt=0, description='words')\n"
        "    _own: int = 0\n"
        "class Engine:\n    def __init__(self, path: str) -> None:\n"
        "        self.path = path\n        self._hidden = 1\n        self.count: int = 0\n"
        "    @property\n    def size(self) -> int: ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module: ModuleType = generator()
    return module


def test_fields_signatures_and_what_is_inherited_are_recorded(sample: Any) -> None:
    def described(name: str) -> list[str]:
        return [line.strip() for line in sample.describe(sample.find("sluicegate_sample", name))]

    assert described("Point") == [
        "@dataclass class Point(_Base)",
        "def shared(self, a: int=1) -> str",
        "y: int",
        "x: int = Field(gt=0)",
    ]
    assert described("Engine") == [
        "class Engine",
        "def __init__(self, path: str) -> None",
        "count: int",
        "path",
        "size: int",
    ]
