"""Makes the distribution of a new plugin out of `templates`."""

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

import click

from sluicegate.runtime.plugins import GROUP

KINDS = {
    "policy": "A policy field that every level of the file accepts, and the check that enforces it",
    "check": "A check of operations that needs no field",
    "delay": "A rule for when messages are delivered",
    "factor": "A factor that slows publishing down while something outside says so",
    "broker": "A kind of broker with a protocol of its own",
    "store": "A policy store behind a URL of its own",
    "client": "Clients of a broker that apply the policies in the application's own process",
}
"""What can be made, each with a sentence for its README."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)
_SHARED = {
    "pyproject.toml": "shared/pyproject.toml",
    "README.md": "shared/README.md",
    "tests/conftest.py": "shared/conftest.py",
}

_CONFORMANCE = "$ pytest --sluicegate-driver doors    # what every kind of broker passes, by tests/doors.py\n"


def make_distribution(name: str, kind: str, parent: Path) -> Path:
    """Write the distribution of a new plugin.

    :param name: of the distribution and of its directory.
    :param kind: one of KINDS.
    :param parent: where its directory is made.
    :return: its directory.
    :raises click.ClickException: if the name cannot be used, or the directory is there or cannot be written.
    """
    module = _module_of(name)
    directory = parent / name
    try:
        directory.mkdir()
        for path, text in _contents(name, module, kind):
            file = directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    except FileExistsError:
        raise click.ClickException(f"{directory} is there already: choose another name, or move it") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {directory}: {error.strerror}") from error
    return directory


def _module_of(name: str) -> str:
    """The module of a distribution.

    :raises click.ClickException: if there can be none of that name.
    """
    module = re.sub(r"[-.]+", "_", name.lower())
    if _NAME.fullmatch(name) is None or not module.isidentifier() or keyword.iskeyword(module):
        raise click.ClickException(
            f"{name!r} is no name of a distribution and its module: begin with a letter, and go on with "
            "letters, digits and dashes, such as business-hours"
        )
    if module in sys.stdlib_module_names or module in entry_points(group=GROUP).names or find_spec(module):
        raise click.ClickException(
            f"there is a module or a plugin {module!r} already: choose another name, such as my-{name}"
        )
    return module


def _contents(name: str, module: str, kind: str) -> Iterator[tuple[str, str]]:
    """Path and text of each file."""
    words = {
        "distribution": name,
        "module": module,
        "class_": "".join(word.capitalize() for word in module.split("_")),
        "summary": KINDS[kind],
        "commands": _CONFORMANCE if kind == "broker" else "",
    }
    yield f"src/{module}/py.typed", ""
    own = {f"src/{module}/__init__.py": f"{kind}/module.py", f"tests/test_{module}.py": f"{kind}/test.py"}
    if kind == "broker":
        own["tests/doors.py"] = "broker/doors.py"
    templates = files("sluicegate.cli") / "templates"
    for path, template in {**_SHARED, **own}.items():
        yield path, Template((templates / f"{template}.template").read_text()).substitute(words)
