"""Tests. A package, so that no installed distribution's `tests` can be taken for it."""
