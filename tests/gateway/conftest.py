import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Worker processes import the echo plugin by name, and so do the tests.
sys.path.append(str(Path(__file__).parents[2]))


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Puts handlers and levels back, as `logs.set_up` replaces those of the whole process."""
    root, own = logging.getLogger(), logging.getLogger("sluicegate")
    handlers, levels = list(root.handlers), (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
