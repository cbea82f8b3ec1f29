"""docs/conformance.md is what the drivers say: no capability changes without it."""

import importlib.util
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
_SPEC = importlib.util.spec_from_file_location("generate_conformance", DOCS / "generate_conformance.py")
assert _SPEC is not None
assert _SPEC.loader is not None
generate_conformance: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate_conformance)


def test_the_matrix_is_what_the_drivers_say() -> None:
    text = (DOCS / "conformance.md").read_text()
    assert text == generate_conformance.render(), "run `PYTHONPATH=. python docs/generate_conformance.py`"
    assert "| `max_publish_rate` | emulated | emulated |" in text
