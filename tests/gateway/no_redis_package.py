"""A plugin for tests: in a process of a gateway the package `redis` is not installed."""

import sys

if "pytest" not in sys.modules:
    sys.modules["redis"] = None  # type: ignore[assignment]
