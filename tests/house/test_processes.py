"""Every process of Python that the product or a benchmark starts has the command line of `python_command`."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "core", "interceptors", "plugins", "reports")
UNSAFE = re.compile(r'sys\.executable,\s*"-[cm]"')
"""Without `-P`, Python searches the working directory for modules."""


def test_no_process_of_python_searches_the_working_directory() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert [str(path) for path in files if UNSAFE.search(path.read_text())] == []


def test_an_unsafe_start_is_found() -> None:
    assert UNSAFE.search('start(\n    sys.executable,\n    "-m",\n    "sluicegate",\n)')
    assert UNSAFE.search('[sys.executable, "-c", program]')
    assert not UNSAFE.search('[sys.executable, "-P", "-m", module]')
