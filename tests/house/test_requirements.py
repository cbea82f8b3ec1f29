"""The list of requirements is that of the tests as they are now."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_requirements", DOCS / "generate_requirements.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_test(folder: Path, text: str) -> Path:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(text)
    return folder


def test_the_list_is_up_to_date(generator: ModuleType) -> None:
    document = generator.render(generator.requirements(), generator.marked_tests(DOCS.parent))
    assert (DOCS / "requirements.md").read_text() == document, "run `python docs/generate_requirements.py`"


def test_ids_are_well_formed_and_texts_short(generator: ModuleType) -> None:
    items = [item for group in generator.requirements().values() for item in group.items()]
    assert len(items) == len({identifier for identifier, _ in items})
    assert [
        identifier for identifier, _ in items if not re.fullmatch(r"S[1-5]-\d{3}|X-\d{2}", identifier)
    ] == []
    assert [text for _, text in items if not 10 < len(text) <= 110 or "|" in text] == []


def test_marks_of_functions_classes_modules_and_parameters_are_found(
    generator: ModuleType, tmp_path: Path
) -> None:
    text = """
pytestmark = [pytest.mark.seed("S1-001")]
@pytest.mark.seed("S1-002", "S1-003")
async def test_one(): ...
@pytest.mark.seed("S1-004")
class TestTwo:
    @pytest.mark.seed("S1-002")
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.seed("S1-005"))])
    def test_three(self, x): ...
"""
    assert generator.marked_tests(write_test(tmp_path, text)) == {
        "S1-001": ["tests/test_it.py"],
        "S1-002": ["tests/test_it.py::test_one", "tests/test_it.py::test_three"],
        "S1-003": ["tests/test_it.py::test_one"],
        "S1-004": ["tests/test_it.py::TestTwo"],
        "S1-005": ["tests/test_it.py"],
    }


def test_an_unknown_id_is_refused(generator: ModuleType, tmp_path: Path) -> None:
    root = write_test(tmp_path, '@pytest.mark.seed("S9-999")\ndef test_it(): ...\n')
    with pytest.raises(generator.UnknownIdError, match="test_it shows 'S9-999'"):
        generator.render(generator.requirements(), generator.marked_tests(root))


@pytest.mark.parametrize("arguments", ["", "ID", '"S1-001", ID'])
def test_a_mark_must_name_its_ids(generator: ModuleType, tmp_path: Path, arguments: str) -> None:
    root = write_test(tmp_path, f"@pytest.mark.seed({arguments})\ndef test_it(): ...\n")
    with pytest.raises(generator.UnknownIdError, match="plain strings"):
        generator.marked_tests(root)
