"""A plugin of pytest: the option `--sluicegate-driver`, which runs the conformance suite.

pytest loads it in every run where this distribution is installed, so it imports nothing else before the
option is given.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_OPTION = "--sluicegate-driver"


def pytest_addoption(parser: "pytest.Parser") -> None:
    """Add the option."""
    parser.addoption(
        _OPTION,
        metavar="NAME",
        help="run Sluicegate's conformance suite on a driver: a name of the entry point group "
        "'sluicegate.conformance', or module:ATTRIBUTE; tests beside it are those that you name",
    )


def pytest_configure(config: "pytest.Config") -> None:
    """Have the suite collected, if the option is given."""
    name = config.getoption(_OPTION, default=None)
    if name:
        from sluicegate.testing.conformance.named import collect

        collect(config, name)
